// What a step computed on the device, read by the host once it has arrived.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/tensors.h"

namespace trainer::engine {

// The device values of a step, in the order of the row that carries them.
struct StepValues {
  float loss = 0;
  float grad_norm = 0;  // unscaled, before clipping
  float lr = 0;
  float loss_scale = 0;
  float skipped = 0;  // 1: the optimiser did not move
  float halted = 0;   // 1: a loss or gradient was not finite and the run must stop
};

struct FinishedStep {
  std::int64_t step = 0;  // as given to push
  StepValues values;
  double milliseconds = 0;  // on the device, from the previous step's end (or `resume_clock`)
};

// A short queue of steps under way. push never waits for the step it is given; it waits for an
// older one only where `depth` steps are under way already, so that the host cannot run ahead
// without bound. One thread.
class StepResults {
 public:
  explicit StepResults(at::Device device, int depth = 4);
  ~StepResults();
  // `row`: float32 [6], StepValues in order, on the device.
  void push(std::int64_t step, const at::Tensor& row);
  // The oldest step if it has finished; with `wait`, waits for it. nullopt when nothing is left or
  // ready.
  std::optional<FinishedStep> pop(bool wait);
  bool full() const;
  // Starts the next step's time now: after an evaluation or a checkpoint.
  void resume_clock();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::engine

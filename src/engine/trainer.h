// The training step: forward and backward over micro-batches, then one update. Nothing in it waits
// for the device.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"
#include "data/feed.h"
#include "distributed/strategy.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "precision/precision.h"

namespace trainer::engine {

// What the trainer is given. All of it outlives the trainer.
struct TrainerParts {
  models::Model& model;
  const objectives::Objective& objective;
  optim::Optimizer& optimizer;
  optim::Ema* ema = nullptr;  // null where it is off
  precision::Scaler& scaler;
  distributed::Strategy& strategy;
  const optim::Schedule& schedule;
};

struct TrainerOptions {
  at::Device device = at::kCPU;
  config::Precision precision;
  config::OnNonfinite on_nonfinite = config::OnNonfinite::stop;
  std::optional<double> clip_norm;
  std::uint64_t seed = 0;
  std::int64_t updates = 0;  // the run's most; 0 where it is not known
};

class Trainer : public Stateful {
 public:
  Trainer(const TrainerParts& parts, const TrainerOptions& options);

  // Trains one step (an attempt at one update) on `batch`, cut into micro-batches of `micro`
  // samples, the last one shorter where it does not divide. Returns the row of StepValues, float32
  // [6] on the device. An exception leaves the step under way: `abandon` it before the next.
  at::Tensor step(const data::StepBatch& batch, std::int64_t micro);

  // The phases of `step`, for one that has to be done again on the same samples: begin, accumulate
  // every micro-batch, then finish; or abandon at any point before finish, which puts back what the
  // forward passes changed.
  void begin_step(std::int64_t step);
  // `total_weight` is that of all the step's samples.
  void accumulate(const Batch& batch, double total_weight, bool last);
  at::Tensor finish_step();
  void abandon();

  // Clears the sticky stop that a value that is not finite has set.
  void clear_halt();

  // Device counters of updates done.
  State state() const override;
  void load(const State& state) override;

 private:
  void save_buffers();
  void restore_buffers_where(const at::Tensor& flag);

  TrainerParts parts_;
  TrainerOptions options_;
  // Note [Device values]: what a step reads and writes besides weights is a device tensor with a
  // fixed address, so that no branch on the host depends on a value of the device, and a captured
  // step can be replayed.
  at::Tensor lr_table_;  // float32 [n]: the learning rate of update i; constant from n - 1 on
  at::Tensor updates_;   // int64 [1]: updates done; skipped steps do not count
  at::Tensor halted_;    // float32 []: 1 once a value was not finite and the run has to stop
  at::Tensor loss_;      // float32 []: mean loss of the step under way, summed over micro-batches
  std::int64_t largest_size_ = 0;          // of a batch so far
  std::vector<at::Tensor> saved_buffers_;  // the model's buffer storages before the step
};

}  // namespace trainer::engine

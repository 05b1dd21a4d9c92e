// Exponential moving average of a model's parameters and floating-point buffers.
#pragma once

#include "core/tensors.h"

namespace trainer::optim {

// Costs one copy of the values in memory, and one kernel an update. Values are dense float32.
// State names are the values' own names.
class Ema : public Stateful {
 public:
  // Starts as a copy of `values` (parameters and floating-point buffers; live handles, in the
  // memory layout that they keep).
  Ema(double decay, NamedTensors values);
  // average += (1 - decay) * (value - average), or nothing where found_inf (0-dim float32, 0 or 1)
  // is 1: then the averages keep every bit, whatever the values hold. No host wait.
  void update(const at::Tensor& found_inf);
  // Exchanges values and averages, in place: before an evaluation and again after it. The other
  // members are for between such pairs only.
  void swap();
  State state() const override;
  void load(const State& state) override;

 private:
  void require_not_swapped() const;

  double decay_;
  NamedTensors values_;
  std::vector<at::Tensor> averages_;
  bool swapped_ = false;
};

}  // namespace trainer::optim

// Exponential moving average of a model's parameters and floating-point buffers.
#pragma once

#include "core/tensors.h"

namespace trainer::optim {

class Ema : public Stateful {
 public:
  // Starts as a copy of `values` (parameters and floating-point buffers; live handles).
  Ema(double decay, NamedTensors values);
  // average += (1 - decay) * (value - average), or nothing where found_inf (0-dim float32) is 1.
  void update(const at::Tensor& found_inf);
  // Exchanges values and averages, in place: before an evaluation and again after it.
  void swap();
  State state() const override;
  void load(const State& state) override;

 private:
  double decay_;
  NamedTensors values_;
  std::vector<at::Tensor> averages_;
};

}  // namespace trainer::optim

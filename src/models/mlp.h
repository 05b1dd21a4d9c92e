// The multi-layer perceptron over a flattened image.
#pragma once

#include "models/module.h"

namespace trainer::models {

// Flatten, then a linear layer for each hidden size with the activation and dropout after it, then
// the linear layer to the classes. Its state_dict is that of
//
//   class Mlp(nn.Module):
//       def __init__(self, sizes):  # [channels * height * width, *hidden, classes]
//           super().__init__()
//           self.layers = nn.ModuleList(map(nn.Linear, sizes[:-1], sizes[1:]))
//
// so the parameters are layers.0.weight, layers.0.bias, layers.1.weight, ... GELU is the exact one.
class Mlp final : public Module {
 public:
  Mlp(const config::Mlp& config, const InputShape& input, std::int64_t classes, std::uint64_t seed);

 private:
  at::Tensor logits(const at::Tensor& input) override;

  std::vector<Linear> layers_;
  config::Activation activation_;
  double dropout_;
};

}  // namespace trainer::models

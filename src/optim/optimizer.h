// Optimisers over parameter groups, on ATen's fused paths. Nothing here waits for the device: the
// learning rate, the scale and the overflow flag are device values.
#pragma once

#include <c10/util/Optional.h>

#include <memory>
#include <optional>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::optim {

class Optimizer : public Stateful {
 public:
  // One update of every parameter that has a gradient. All tensors are 0-dim float32 on the
  // parameters' device.
  //   lr: learning rate before a group's factor.
  //   grad_divisor: gradients are divided by it first (loss scale over clip factor).
  //   found_inf: where 1, parameters and state stay as they are.
  virtual void step(const at::Tensor& lr, const at::Tensor& grad_divisor,
                    const at::Tensor& found_inf) = 0;
  // Sets gradients to zero in place, or leaves them undefined before the first backward.
  virtual void zero_grad() = 0;
  // Gradients that are defined now, in parameter order.
  virtual std::vector<at::Tensor> gradients() const = 0;
};

// A glob of `groups` that matches no parameter throws Error(config) and names the nearest one.
std::unique_ptr<Optimizer> make_optimizer(const config::Optim& config,
                                          const NamedTensors& parameters);

// 2-norm over all gradients together, 0-dim float32. One pass, no host wait. Empty input gives 0.
at::Tensor global_norm(const std::vector<at::Tensor>& gradients);

}  // namespace trainer::optim

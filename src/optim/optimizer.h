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

// The parameters that have requires_grad when the optimiser is made, in the order they were given.
// Those whose gradient is undefined sit a step out: value, state and step count stay.
//
// State is allocated at construction, in each parameter's memory layout, and keeps its addresses
// for good, so that a captured CUDA graph stays valid. Names: `<parameter>.momentum_buffer` for sgd
// with momentum, `<parameter>.exp_avg`, `.exp_avg_sq` and `.step` (0-dim float32, updates done) for
// adam and adamw.
class Optimizer : public Stateful {
 public:
  // One update of every parameter that has a gradient. All tensors are 0-dim float32 on the
  // parameters' device.
  //   lr: learning rate before a group's factor.
  //   grad_divisor: gradients are divided by it first (loss scale over clip factor). Undefined
  //     stands for 1 and saves the division and the store of the gradients; on CUDA the results
  //     then differ by rounding, since the kernels are compiled apart.
  //   found_inf: 0 or 1; where 1, parameters and state stay as they are, to the bit.
  // Gradients hold unspecified values afterwards.
  virtual void step(const at::Tensor& lr, const at::Tensor& grad_divisor,
                    const at::Tensor& found_inf) = 0;
  // Makes every gradient undefined: the next backward then hands its results over instead of adding
  // them to zeros, which saves a kernel for each parameter and the memory during the forward pass.
  virtual void zero_grad() = 0;
  // Gradients that are defined now, in parameter order.
  virtual std::vector<at::Tensor> gradients() const = 0;
};

// Parameters are float32 (autocast casts them, see precision) and of one device. The first of
// `groups` whose glob matches takes a parameter; the others keep the optimiser's own settings.
// A glob of `groups` that matches no parameter throws Error(config) and names the nearest one; so
// does a glob whose parameters are all taken by earlier groups.
std::unique_ptr<Optimizer> make_optimizer(const config::Optim& config,
                                          const NamedTensors& parameters);

// 2-norm over all gradients together, 0-dim float32 on their device. No host wait. Empty input
// gives 0 on the CPU.
at::Tensor global_norm(const std::vector<at::Tensor>& gradients);

}  // namespace trainer::optim

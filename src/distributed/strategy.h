// How gradients of several ranks become one. The trainer is given one and calls it at fixed points;
// one process alone does nothing at each.
#pragma once

#include <memory>
#include <vector>

#include "core/tensors.h"

namespace trainer::distributed {

class Strategy {
 public:
  virtual ~Strategy() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Once, before the first step: makes every rank start from rank 0's values.
  virtual void adopt(const NamedTensors& parameters, const NamedTensors& buffers) = 0;
  // Around a micro-batch's forward and backward; `last` is true for the step's last one, whose
  // backward reduces the gradients (summed over ranks).
  virtual void before_forward(bool last) = 0;
  virtual void before_backward(bool last) = 0;
  // After the last backward: gradients are reduced when this returns, in stream order.
  virtual void finish_step() = 0;
  // Drops a step that failed midway; the next before_forward starts clean.
  virtual void abandon() = 0;
  // Sums over ranks, in place, in stream order.
  virtual void sum(at::Tensor& values) = 0;
};

std::unique_ptr<Strategy> single_process();

}  // namespace trainer::distributed

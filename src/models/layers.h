// The layers that models are made of: tensors and the one fused call that applies them. A layer
// holds handles of tensors that its Module owns, so copying a layer shares them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainer::models {

// [n, in, h, w] -> [n, out, h', w'].
struct Conv2d {
  at::Tensor weight;  // [out, in, kernel, kernel]
  at::Tensor bias;    // [out], or undefined
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  at::Tensor operator()(const at::Tensor& input) const;
};

// Batch normalisation over n, h and w (Ioffe & Szegedy 2015) with PyTorch's defaults: eps 1e-5, and
// running statistics that take 0.1 of each new batch.
struct BatchNorm2d {
  at::Tensor weight, bias;               // [channels]
  at::Tensor running_mean, running_var;  // [channels]

  // In training by the batch's own statistics, which must come from more than one value a channel:
  // throws Error(config) otherwise, since the variance of one value is not defined.
  at::Tensor operator()(const at::Tensor& input, bool training) const;
};

// [n, in] -> [n, out].
struct Linear {
  at::Tensor weight;  // [out, in]
  at::Tensor bias;    // [out]

  at::Tensor operator()(const at::Tensor& input) const;
};

}  // namespace trainer::models

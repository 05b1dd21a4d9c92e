// The layers that models are made of: tensors and the one fused call that applies them. A layer
// holds handles of tensors that its Module owns, so copying a layer shares them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace trainer::models {

// A low-rank update beside a linear layer (Hu et al. 2021, "LoRA"): to W x it adds
// scale * up(down(dropout(x))). Without tensors it adds nothing.
struct Adapter {
  at::Tensor down;  // [rank, in]
  at::Tensor up;    // [out, rank]
  double scale = 1;
  double dropout = 0;
  bool training = true;

  // `output` is the layer's own of `input`: [..., in] -> [..., out].
  at::Tensor add_to(const at::Tensor& output, const at::Tensor& input) const;
};

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
  // The running statistics do not move in a block's second run (core/recompute.h).
  at::Tensor operator()(const at::Tensor& input, bool training) const;
};

// [..., in] -> [..., out].
struct Linear {
  at::Tensor weight;                 // [out, in]
  at::Tensor bias;                   // [out], or undefined
  std::shared_ptr<Adapter> adapter;  // shared by copies of the layer

  at::Tensor operator()(const at::Tensor& input) const;
};

}  // namespace trainer::models

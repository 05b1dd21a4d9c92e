#include "models/mlp.h"

#include <ATen/ops/dropout.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/tanh.h>

namespace trainer::models {
namespace {

// Overwrites `x` where the gradient needs only the result; a linear layer keeps no output.
at::Tensor activate(config::Activation kind, at::Tensor x) {
  switch (kind) {
    case config::Activation::relu:
      return at::relu_(x);
    case config::Activation::tanh:
      return at::tanh_(x);
    case config::Activation::gelu:
      return at::gelu(x);
  }
  return x;
}

}  // namespace

Mlp::Mlp(const config::Mlp& config, const InputShape& input, std::int64_t classes,
         std::uint64_t seed)
    : Module(seed), activation_(config.activation), dropout_(config.dropout) {
  std::vector<std::int64_t> sizes = config.hidden;
  sizes.push_back(classes);
  std::int64_t in = input.channels * input.height * input.width;
  for (const std::int64_t out : sizes) {
    layers_.push_back(linear("layers." + std::to_string(layers_.size()), in, out));
    in = out;
  }
}

at::Tensor Mlp::logits(const at::Tensor& input) {
  at::Tensor x = layers_.front()(at::flatten(input, 1));
  for (std::size_t i = 1; i < layers_.size(); ++i) {
    x = activate(activation_, x);
    if (dropout_ > 0 && training()) x = at::dropout(x, dropout_, /*train=*/true);
    x = layers_[i](x);
  }
  return x;
}

}  // namespace trainer::models

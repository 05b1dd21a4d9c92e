#include "models/layers.h"

#include <ATen/ops/add.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/linear.h>

#include <optional>

#include "core/error.h"
#include "core/recompute.h"

namespace trainer::models {
namespace {

constexpr double kMomentum = 0.1;
constexpr double kEpsilon = 1e-5;

void require_variance(const at::Tensor& input) {
  if (input.numel() / input.size(1) > 1) return;
  throw Error(Exit::config,
              "batch normalisation got one value per channel (a micro-batch of one sample whose "
              "feature map has shrunk to one pixel), so the batch has no variance: raise "
              "batch.micro, set data.loader.drop_last: true if this is the epoch's last batch, or "
              "use larger images");
}

}  // namespace

at::Tensor Conv2d::operator()(const at::Tensor& input) const {
  const auto optional_bias = bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  return at::conv2d(input, weight, optional_bias, stride, padding);
}

at::Tensor Adapter::add_to(const at::Tensor& output, const at::Tensor& input) const {
  if (!down.defined()) return output;
  const bool drops = training && dropout > 0;
  const at::Tensor kept = drops ? at::dropout(input, dropout, /*train=*/true) : input;
  return at::add(output, at::linear(at::linear(kept, down), up), scale);
}

at::Tensor BatchNorm2d::operator()(const at::Tensor& input, bool training) const {
  if (training) require_variance(input);
  if (training && recompute::running_again()) {
    return at::batch_norm(input, weight, bias, {}, {}, training, kMomentum, kEpsilon,
                          /*cudnn_enabled=*/true);
  }
  return at::batch_norm(input, weight, bias, running_mean, running_var, training, kMomentum,
                        kEpsilon, /*cudnn_enabled=*/true);
}

at::Tensor Linear::operator()(const at::Tensor& input) const {
  const auto optional_bias = bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt;
  const at::Tensor output = at::linear(input, weight, optional_bias);
  return adapter ? adapter->add_to(output, input) : output;
}

}  // namespace trainer::models

#include "models/layers.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>

#include <optional>

#include "core/error.h"

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

at::Tensor BatchNorm2d::operator()(const at::Tensor& input, bool training) const {
  if (training) require_variance(input);
  return at::batch_norm(input, weight, bias, running_mean, running_var, training, kMomentum,
                        kEpsilon, /*cudnn_enabled=*/true);
}

at::Tensor Linear::operator()(const at::Tensor& input) const {
  return at::linear(input, weight, bias);
}

}  // namespace trainer::models

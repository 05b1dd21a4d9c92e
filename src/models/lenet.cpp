#include "models/lenet.h"

#include <ATen/ops/flatten.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <algorithm>

#include "core/error.h"

namespace trainer::models {
namespace {

constexpr std::int64_t kSmallestSide = 4;

struct Padding {
  std::int64_t conv1, conv2;
};

Padding padding_for(const InputShape& input) {
  const std::int64_t side = std::min(input.height, input.width);
  if (side < kSmallestSide) {
    throw Error(Exit::config,
                "model.kind: lenet needs images of at least 4x4 pixels, and the data "
                "gives " +
                    std::to_string(input.height) + "x" + std::to_string(input.width) +
                    ": enlarge them with a resize transform, or use model.kind: mlp");
  }
  return {.conv1 = side < 32 ? 2 : 0, .conv2 = side < 12 ? 2 : 0};
}

// A side of the image after both convolutions and both pools.
std::int64_t side_before_fc1(std::int64_t side, const Padding& padding) {
  const std::int64_t pooled = (side + 2 * padding.conv1 - 4) / 2;
  return (pooled + 2 * padding.conv2 - 4) / 2;
}

at::Tensor relu_pool(at::Tensor x) { return at::max_pool2d(at::relu_(x), 2); }

}  // namespace

LeNet::LeNet(const InputShape& input, std::int64_t classes, std::uint64_t seed) : Module(seed) {
  const Padding padding = padding_for(input);
  const std::int64_t features =
      16 * side_before_fc1(input.height, padding) * side_before_fc1(input.width, padding);
  conv1_ =
      conv2d("conv1", input.channels, 6, {.kernel = 5, .padding = padding.conv1, .bias = true});
  conv2_ = conv2d("conv2", 6, 16, {.kernel = 5, .padding = padding.conv2, .bias = true});
  fc1_ = linear("fc1", features, 120);
  fc2_ = linear("fc2", 120, 84);
  fc3_ = linear("fc3", 84, classes);
}

at::Tensor LeNet::logits(const at::Tensor& input) {
  at::Tensor x = relu_pool(conv2_(relu_pool(conv1_(input))));
  x = fc1_(at::flatten(x, 1));
  x = fc2_(at::relu_(x));
  return fc3_(at::relu_(x));
}

}  // namespace trainer::models

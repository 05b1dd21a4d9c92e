#include "models/resnet.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <algorithm>
#include <array>

#include "core/error.h"

namespace trainer::models {

struct ResNet::Architecture {
  bool bottleneck;
  std::array<int, 4> blocks;  // of each stage

  std::int64_t expansion() const { return bottleneck ? 4 : 1; }

  // Table 1 of the paper.
  static Architecture of_depth(int depth) {
    switch (depth) {
      case 18:
        return {false, {2, 2, 2, 2}};
      case 34:
        return {false, {3, 4, 6, 3}};
      case 50:
        return {true, {3, 4, 6, 3}};
      case 101:
        return {true, {3, 4, 23, 3}};
      default:
        throw Error(Exit::config, "model.kind: resnet" + std::to_string(depth) +
                                      " is not known; choose resnet18, resnet34, resnet50 or "
                                      "resnet101");
    }
  }
};

namespace {

void require_size(const config::ResNet& config, const InputShape& input) {
  const bool cifar = config.stem == config::Stem::cifar;
  const std::int64_t smallest = cifar ? 5 : 17;
  if (std::min(input.height, input.width) >= smallest) return;
  const std::string side = std::to_string(smallest);
  std::string advice = "enlarge them with a resize transform";
  if (!cifar) advice = "set model.stem: cifar, or " + advice;
  throw Error(Exit::config, "model.kind: resnet" + std::to_string(config.depth) + " with the " +
                                (cifar ? "cifar" : "imagenet") + " stem needs images of at least " +
                                side + "x" + side + " pixels, and the data gives " +
                                std::to_string(input.height) + "x" + std::to_string(input.width) +
                                ": " + advice);
}

}  // namespace

at::Tensor ResNet::ConvNorm::operator()(const at::Tensor& input, bool training) const {
  return norm(conv(input), training);
}

// ReLU and the sum overwrite the batch norm's output, which no gradient needs.
at::Tensor ResNet::Residual::operator()(const at::Tensor& input, bool training) const {
  at::Tensor x = branch.front()(input, training);
  for (std::size_t i = 1; i < branch.size(); ++i) x = branch[i](at::relu_(x), training);
  x.add_(downsample ? (*downsample)(input, training) : input);
  return at::relu_(x);
}

ResNet::ResNet(const config::ResNet& config, const InputShape& input, std::int64_t classes,
               std::uint64_t seed)
    : Module(seed), stem_kind_(config.stem) {
  const Architecture architecture = Architecture::of_depth(config.depth);
  require_size(config, input);
  const ConvShape stem = stem_kind_ == config::Stem::cifar
                             ? ConvShape{.kernel = 3, .stride = 1, .padding = 1}
                             : ConvShape{.kernel = 7, .stride = 2, .padding = 3};
  stem_ = conv_norm("conv1", "bn1", input.channels, 64, stem);
  for (int stage = 1; stage <= 4; ++stage) add_stage(stage, architecture);
  fc_ = linear("fc", 512 * architecture.expansion(), classes);
  initialise(config.zero_init_residual);
}

ResNet::ConvNorm ResNet::conv_norm(const std::string& conv_name, const std::string& norm_name,
                                   std::int64_t in, std::int64_t out, const ConvShape& shape) {
  ConvNorm made;
  made.conv = conv2d(conv_name, in, out, shape);
  made.norm = batch_norm2d(norm_name, out);
  return made;
}

ResNet::Residual ResNet::make_block(const std::string& name, bool bottleneck, std::int64_t in,
                                    std::int64_t width, std::int64_t stride) {
  const std::int64_t out = bottleneck ? 4 * width : width;
  Residual block;
  const auto add = [&](std::int64_t from, std::int64_t to, const ConvShape& shape) {
    const std::string number = std::to_string(block.branch.size() + 1);
    block.branch.push_back(
        conv_norm(name + ".conv" + number, name + ".bn" + number, from, to, shape));
  };
  if (bottleneck) {
    add(in, width, {.kernel = 1});
    add(width, width, {.kernel = 3, .stride = stride, .padding = 1});
    add(width, out, {.kernel = 1});
  } else {
    add(in, width, {.kernel = 3, .stride = stride, .padding = 1});
    add(width, width, {.kernel = 3, .padding = 1});
  }
  if (stride != 1 || in != out) {
    block.downsample = conv_norm(name + ".downsample.0", name + ".downsample.1", in, out,
                                 {.kernel = 1, .stride = stride});
  }
  return block;
}

void ResNet::add_stage(int stage, const Architecture& architecture) {
  const std::int64_t width = std::int64_t{32} << stage;
  std::int64_t in = stage == 1 ? 64 : width / 2 * architecture.expansion();
  for (int i = 0; i < architecture.blocks[static_cast<std::size_t>(stage - 1)]; ++i) {
    const std::string name = "layer" + std::to_string(stage) + "." + std::to_string(i);
    const std::int64_t stride = i == 0 && stage > 1 ? 2 : 1;
    blocks_.push_back(make_block(name, architecture.bottleneck, in, width, stride));
    in = width * architecture.expansion();
  }
}

// Over the layers' own initialisation: every convolution is drawn again, in the order of the state.
// zero_init_residual makes each block begin as the identity (Goyal et al. 2017, section 5.1).
void ResNet::initialise(bool zero_init_residual) {
  kaiming_normal_fan_out(stem_.conv.weight);
  for (const Residual& block : blocks_) {
    for (const ConvNorm& unit : block.branch) kaiming_normal_fan_out(unit.conv.weight);
    if (block.downsample) kaiming_normal_fan_out(block.downsample->conv.weight);
  }
  if (!zero_init_residual) return;
  const at::NoGradGuard no_grad;
  for (const Residual& block : blocks_) block.branch.back().norm.weight.fill_(0);
}

at::Tensor ResNet::run_residual(std::size_t index, const at::Tensor& input) const {
  const auto residual = [this, index, trains = training()](const at::Tensor& x) {
    return blocks_[index](x, trains);
  };
  return run_block(static_cast<std::int64_t>(index), residual, input);
}

at::Tensor ResNet::logits(const at::Tensor& input) {
  at::Tensor x = stem_(input, training());
  at::relu_(x);
  if (stem_kind_ == config::Stem::imagenet) x = at::max_pool2d(x, 3, 2, 1);
  for (std::size_t i = 0; i < blocks_.size(); ++i) x = run_residual(i, x);
  return fc_(at::flatten(at::adaptive_avg_pool2d(x, {1, 1}), 1));
}

}  // namespace trainer::models

#include "models/vit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>

#include "core/error.h"

namespace trainer::models {
namespace {

constexpr double kStd = 0.02;
constexpr double kClassTokenStd = 1e-6;

at::Tensor drop(const at::Tensor& x, double share) {
  return share > 0 ? at::dropout(x, share, /*train=*/true) : x;
}

void require_sizes(const config::Vit& config, const InputShape& input) {
  const std::string image = std::to_string(config.image);
  if (config.patch < 1 || config.image % config.patch != 0) {
    throw Error(Exit::config, "model.kind: vit has model.image " + image + ", which model.patch " +
                                  std::to_string(config.patch) + " does not divide: change either");
  }
  if (config.heads < 1 || config.width % config.heads != 0) {
    throw Error(Exit::config, "model.kind: vit has model.width " + std::to_string(config.width) +
                                  ", which model.heads " + std::to_string(config.heads) +
                                  " does not divide: change either");
  }
  if (input.height != config.image || input.width != config.image) {
    throw Error(Exit::config, "model.kind: vit takes images of model.image " + image +
                                  " pixels a side, and the "
                                  "data gives " +
                                  std::to_string(input.height) + "x" + std::to_string(input.width) +
                                  ": set model.image, or crop or resize the images to " + image +
                                  "x" + image);
  }
}

}  // namespace

Vit::Vit(const config::Vit& config, const InputShape& input, std::int64_t classes,
         std::uint64_t seed)
    : Module(seed), heads_(config.heads), dropout_(config.dropout) {
  require_sizes(config, input);
  const std::int64_t side = config.image / config.patch;
  class_token_ = normal_parameter("cls_token", {1, 1, config.width}, kClassTokenStd);
  positions_ = normal_parameter("pos_embed", {1, 1 + side * side, config.width}, kStd);
  patches_ = conv2d("patch_embed.proj", input.channels, config.width,
                    {.kernel = config.patch, .stride = config.patch, .bias = true});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers_.push_back(make_layer("blocks." + std::to_string(i), config));
  }
  norm_ = layer_norm("norm", config.width, config.norm_eps);
  head_ = normal_linear("head", config.width, classes, /*bias=*/true, kStd);
}

Vit::Layer Vit::make_layer(const std::string& name, const config::Vit& config) {
  const std::int64_t width = config.width;
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out) {
    return normal_linear(name + part, in, out, /*bias=*/true, kStd);
  };
  Layer layer;
  layer.norm1 = layer_norm(name + ".norm1", width, config.norm_eps);
  layer.qkv = linear(".attn.qkv", width, 3 * width);
  layer.projection = linear(".attn.proj", width, width);
  layer.norm2 = layer_norm(name + ".norm2", width, config.norm_eps);
  layer.up = linear(".mlp.fc1", width, config.intermediate);
  layer.down = linear(".mlp.fc2", config.intermediate, width);
  return layer;
}

at::Tensor Vit::embed(const at::Tensor& input) const {
  const at::Tensor patches = patches_(input).flatten(2).transpose(1, 2);
  const at::Tensor token = class_token_.to(patches.scalar_type()).expand({input.size(0), -1, -1});
  return at::cat({token, patches}, 1) + positions_;
}

at::Tensor Vit::attend(const Layer& layer, const at::Tensor& x, double dropout) const {
  const std::vector<at::Tensor> parts = layer.qkv(x).split(x.size(2), -1);
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({part.size(0), part.size(1), heads_, -1}).transpose(1, 2);
  };
  Attention attention;
  attention.dropout = dropout;
  return layer.projection(attention(by_head(parts[0]), by_head(parts[1]), by_head(parts[2])));
}

at::Tensor Vit::block(const Layer& layer, const at::Tensor& x, double dropout) const {
  const at::Tensor attended = x + drop(attend(layer, layer.norm1(x), dropout), dropout);
  const at::Tensor inner = at::gelu(layer.up(layer.norm2(attended)));
  return attended + drop(layer.down(inner), dropout);
}

at::Tensor Vit::logits(const at::Tensor& input) {
  const double dropout = training() ? dropout_ : 0;
  at::Tensor x = drop(embed(input), dropout);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto one = [this, i, dropout](const at::Tensor& input_of_block) {
      return block(layers_[i], input_of_block, dropout);
    };
    x = run_block(static_cast<std::int64_t>(i), one, x);
  }
  return head_(norm_(x.select(1, 0)));
}

}  // namespace trainer::models

#include "models/gpt2.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/gelu.h>

#include <cmath>

namespace trainer::models {
namespace {

constexpr double kStd = 0.02;

at::Tensor drop(const at::Tensor& x, double share) {
  return share > 0 ? at::dropout(x, share, /*train=*/true) : x;
}

}  // namespace

Gpt2::Gpt2(const config::Gpt2& config, std::int64_t vocabulary, std::uint64_t seed)
    : LanguageModule(config, "gpt2", seed) {
  tokens_ = embedding("transformer.wte", vocabulary, config.width, kStd);
  positions_ = embedding("transformer.wpe", config.context, config.width, kStd);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers_.push_back(make_layer("transformer.h." + std::to_string(i), config));
  }
  norm_ = layer_norm("transformer.ln_f", config.width, config.norm_eps);
  set_head(config.tied ? tokens_.weight
                       : normal_parameter("lm_head.weight", {vocabulary, config.width}, kStd));
}

Gpt2::Layer Gpt2::make_layer(const std::string& name, const config::Gpt2& config) {
  const std::int64_t width = config.width;
  const std::int64_t inner = config.intermediate.value_or(4 * width);
  const double residual_std = kStd / std::sqrt(2.0 * static_cast<double>(config.layers));
  Layer layer;
  layer.norm1 = layer_norm(name + ".ln_1", width, config.norm_eps);
  layer.qkv = transposed_linear(name + ".attn.c_attn", width, 3 * width, kStd);
  layer.projection = transposed_linear(name + ".attn.c_proj", width, width, residual_std);
  layer.norm2 = layer_norm(name + ".ln_2", width, config.norm_eps);
  layer.up = transposed_linear(name + ".mlp.c_fc", width, inner, kStd);
  layer.down = transposed_linear(name + ".mlp.c_proj", inner, width, residual_std);
  return layer;
}

at::Tensor Gpt2::embed(const at::Tensor& tokens, const Places& places) const {
  const at::Tensor embedded = tokens_(tokens);
  if (places.given.defined()) return embedded + positions_(places.given);
  return embedded + positions_.weight.narrow(0, places.first, tokens.size(1));
}

at::Tensor Gpt2::embedding_dropout(const at::Tensor& x, double share) const {
  return drop(x, share);
}

// Queries, keys and values are views of one product, whose gradient is then one concatenation.
at::Tensor Gpt2::attend(std::int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  const std::int64_t heads = sizes().heads;
  const std::vector<at::Tensor> parts = layer.qkv(x).split(sizes().width, -1);
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({part.size(0), part.size(1), heads, -1}).transpose(1, 2);
  };
  at::Tensor keys = by_head(parts[1]);
  at::Tensor values = by_head(parts[2]);
  KeyValueCache* cache = pass.attention.cache;
  if (cache != nullptr) std::tie(keys, values) = cache->append(index, keys, values);
  return layer.projection(pass.attention(by_head(parts[0]), keys, values));
}

at::Tensor Gpt2::block(std::int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  const at::Tensor attended = x + drop(attend(index, layer.norm1(x), pass), pass.dropout);
  const at::Tensor inner = at::gelu(layer.up(layer.norm2(attended)), "tanh");
  return attended + drop(layer.down(inner), pass.dropout);
}

}  // namespace trainer::models

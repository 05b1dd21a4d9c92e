#include "models/llama.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>

#include <tuple>

#include "core/error.h"

namespace trainer::models {
namespace {

constexpr double kStd = 0.02;

void require_sizes(const config::Llama& config, std::int64_t head_size) {
  const std::int64_t kv_heads = config.kv_heads.value_or(config.heads);
  if (kv_heads < 1 || config.heads % kv_heads != 0) {
    throw Error(Exit::config, "model.kind: llama has model.heads " + std::to_string(config.heads) +
                                  ", which model.kv_heads " + std::to_string(kv_heads) +
                                  " does not divide: change either");
  }
  if (head_size < 2 || head_size % 2 != 0) {
    throw Error(Exit::config, "model.kind: llama has heads of " + std::to_string(head_size) +
                                  " numbers, and rotary embeddings turn pairs of them: give an "
                                  "even model.head_size");
  }
}

}  // namespace

Llama::Llama(const config::Llama& config, std::int64_t vocabulary, std::uint64_t seed)
    : LanguageModule(config, "llama", seed),
      head_size_(config.head_size.value_or(config.width / config.heads)),
      rotary_(config) {
  require_sizes(config, head_size_);
  tokens_ = embedding("model.embed_tokens", vocabulary, config.width, kStd);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    layers_.push_back(make_layer("model.layers." + std::to_string(i), config));
  }
  norm_ = rms_norm("model.norm", config.width, config.norm_eps);
  set_head(config.tied ? tokens_.weight
                       : normal_parameter("lm_head.weight", {vocabulary, config.width}, kStd));
}

Llama::Layer Llama::make_layer(const std::string& name, const config::Llama& config) {
  const std::int64_t width = config.width;
  const std::int64_t inner = config.intermediate;
  const std::int64_t queries = config.heads * head_size_;
  const std::int64_t keys = config.kv_heads.value_or(config.heads) * head_size_;
  const auto linear = [&](const char* part, std::int64_t in, std::int64_t out, bool bias) {
    return normal_linear(name + part, in, out, bias, kStd);
  };
  Layer layer;
  layer.query = linear(".self_attn.q_proj", width, queries, config.qkv_bias);
  layer.key = linear(".self_attn.k_proj", width, keys, config.qkv_bias);
  layer.value = linear(".self_attn.v_proj", width, keys, config.qkv_bias);
  layer.output = linear(".self_attn.o_proj", queries, width, /*bias=*/false);
  layer.gate = linear(".mlp.gate_proj", width, inner, /*bias=*/false);
  layer.up = linear(".mlp.up_proj", width, inner, /*bias=*/false);
  layer.down = linear(".mlp.down_proj", inner, width, /*bias=*/false);
  layer.norm1 = rms_norm(name + ".input_layernorm", width, config.norm_eps);
  layer.norm2 = rms_norm(name + ".post_attention_layernorm", width, config.norm_eps);
  return layer;
}

std::optional<Rotation> Llama::rotation(const Places& places, at::Device device) {
  if (places.given.defined()) return rotary_.at(places.given, places.end);
  return rotary_.at(places.first, places.end - places.first, device);
}

at::Tensor Llama::attend(std::int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  const auto by_head = [&](const at::Tensor& part) {
    return part.view({part.size(0), part.size(1), -1, head_size_});
  };
  const Rotation& rotate = *pass.rotation;
  const at::Tensor queries = rotate(by_head(layer.query(x))).transpose(1, 2);
  at::Tensor keys = rotate(by_head(layer.key(x))).transpose(1, 2);
  at::Tensor values = by_head(layer.value(x)).transpose(1, 2);
  KeyValueCache* cache = pass.attention.cache;
  if (cache != nullptr) std::tie(keys, values) = cache->append(index, keys, values);
  return layer.output(pass.attention(queries, keys, values));
}

at::Tensor Llama::block(std::int64_t index, const at::Tensor& x, const Pass& pass) const {
  const Layer& layer = layers_[static_cast<std::size_t>(index)];
  const at::Tensor attended = x + attend(index, autocast_input(layer.norm1(x)), pass);
  const at::Tensor normed = autocast_input(layer.norm2(attended));
  return attended + layer.down(at::silu(layer.gate(normed)) * layer.up(normed));
}

}  // namespace trainer::models

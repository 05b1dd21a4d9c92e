// Llama (Touvron et al. 2023) and the models of its form: Mistral, Qwen2, SmolLM.
#pragma once

#include "models/language_model.h"

namespace trainer::models {

// Names, shapes, order and initialisation are those of transformers' LlamaForCausalLM, with
// `qkv_bias` those of Qwen2ForCausalLM: weights from N(0, 0.02^2), biases 0. Tied, the head is
// model.embed_tokens.weight, which is listed once. `dropout` is that of the attention's
// probabilities, in training, as there.
class Llama final : public LanguageModule {
 public:
  // Throws Error(config) where kv_heads does not divide heads, or a head's size is odd.
  Llama(const config::Llama& config, std::int64_t vocabulary, std::uint64_t seed);

 private:
  struct Layer {
    Linear query, key, value, output;
    Linear gate, up, down;
    RmsNorm norm1, norm2;
  };

  at::Tensor embed(const at::Tensor& tokens, const Places&) const override {
    return tokens_(tokens);
  }
  std::optional<Rotation> rotation(const Places& places, at::Device device) override;
  at::Tensor block(std::int64_t index, const at::Tensor& x, const Pass& pass) const override;
  at::Tensor last_norm(const at::Tensor& x) const override { return norm_(x); }
  Layer make_layer(const std::string& name, const config::Llama& config);
  at::Tensor attend(std::int64_t index, const at::Tensor& x, const Pass& pass) const;

  std::int64_t head_size_;
  Rotary rotary_;
  Embedding tokens_;
  std::vector<Layer> layers_;
  RmsNorm norm_;
};

}  // namespace trainer::models

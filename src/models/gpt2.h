// GPT-2 (Radford et al. 2019, "Language models are unsupervised multitask learners").
#pragma once

#include "models/language_model.h"

namespace trainer::models {

// Names, shapes, order and initialisation are those of transformers' GPT2LMHeadModel: weights from
// N(0, 0.02^2), those of c_proj from N(0, (0.02 / sqrt(2 layers))^2), biases 0. The weights of
// c_attn, c_proj and c_fc are [in, out]. Tied, the head is transformer.wte.weight, which is listed
// once. Dropout, in training: the embeddings, the probabilities, and both branches of a block.
class Gpt2 final : public LanguageModule {
 public:
  Gpt2(const config::Gpt2& config, std::int64_t vocabulary, std::uint64_t seed);

 private:
  struct Layer {
    LayerNorm norm1;
    TransposedLinear qkv, projection;
    LayerNorm norm2;
    TransposedLinear up, down;
  };

  at::Tensor embed(const at::Tensor& tokens, const Places& places) const override;
  std::optional<Rotation> rotation(const Places&, at::Device) override { return std::nullopt; }
  at::Tensor block(std::int64_t index, const at::Tensor& x, const Pass& pass) const override;
  at::Tensor last_norm(const at::Tensor& x) const override { return norm_(x); }
  at::Tensor embedding_dropout(const at::Tensor& x, double share) const override;
  Layer make_layer(const std::string& name, const config::Gpt2& config);
  at::Tensor attend(std::int64_t index, const at::Tensor& x, const Pass& pass) const;

  Embedding tokens_, positions_;
  std::vector<Layer> layers_;
  LayerNorm norm_;
};

}  // namespace trainer::models

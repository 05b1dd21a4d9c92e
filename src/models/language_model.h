// What the language models share: tokens in, blocks, hidden states out, and decoding.
#pragma once

#include <optional>

#include "models/module.h"
#include "models/rotary.h"

namespace trainer::models {

// A decoder-only transformer. A kind of it embeds tokens, applies a block and the last norm.
class LanguageModule : public Module {
 public:
  std::unique_ptr<Decoder> decoder(std::int64_t rows, std::int64_t capacity) final;
  bool is_language_model() const final { return true; }

  // As `forward`, but with `cache`'s tokens before these, which then holds these too. tokens int64
  // [n, t] -> hidden states [n, t, width]. Without dropout.
  at::Tensor continue_from(KeyValueCache& cache, const at::Tensor& tokens);
  const at::Tensor& head() const noexcept { return head_; }  // [vocabulary, width]

 protected:
  // What the blocks of one forward pass share.
  struct Pass {
    Attention attention;
    std::optional<Rotation> rotation;
    double dropout = 0;  // 0 outside of training
  };
  // Where the tokens of a forward pass stand: at `given`, int64 [n, t], where that is defined, else
  // at first, first + 1, ...; all before `end`.
  struct Places {
    at::Tensor given;
    std::int64_t first = 0, end = 0;
  };

  // Throws Error(config) where the heads do not divide the width.
  LanguageModule(const config::LanguageModel& config, const std::string& kind, std::uint64_t seed);

  virtual at::Tensor embed(const at::Tensor& tokens, const Places& places) const = 0;
  virtual std::optional<Rotation> rotation(const Places& places, at::Device device) = 0;
  virtual at::Tensor block(std::int64_t index, const at::Tensor& x, const Pass& pass) const = 0;
  virtual at::Tensor last_norm(const at::Tensor& x) const = 0;
  // Dropout of the embeddings; none by default.
  virtual at::Tensor embedding_dropout(const at::Tensor& x, double) const { return x; }

  const config::LanguageModel& sizes() const noexcept { return sizes_; }
  void set_head(const at::Tensor& weight) { head_ = weight; }

 private:
  Output run(const Batch& batch) final;
  at::Tensor hidden(const at::Tensor& tokens, const Places& places, const Pass& pass);
  void require_fit(std::int64_t length) const;

  config::LanguageModel sizes_;
  at::Tensor head_;
};

}  // namespace trainer::models

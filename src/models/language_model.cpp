#include "models/language_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>

#include "core/error.h"

namespace trainer::models {
namespace {

class CachedDecoder final : public Decoder {
 public:
  CachedDecoder(LanguageModule& model, std::int64_t layers, std::int64_t rows,
                std::int64_t capacity)
      : model_(model), rows_(rows), cache_(layers, capacity) {}

  at::Tensor step(const at::Tensor& tokens) override {
    const at::NoGradGuard no_grad;
    require_fit(tokens);
    const at::Tensor hidden = model_.continue_from(cache_, tokens);
    return at::linear(hidden.select(1, tokens.size(1) - 1), model_.head());
  }
  std::int64_t length() const override { return cache_.length(); }
  std::int64_t capacity() const override { return cache_.capacity(); }
  void clear() override { cache_.clear(); }

 private:
  void require_fit(const at::Tensor& tokens) const {
    if (tokens.dim() != 2 || tokens.size(0) != rows_ || tokens.size(1) < 1) {
      throw Error(Exit::internal, "a decoder of " + std::to_string(rows_) +
                                      " rows takes tokens of as many rows, at least one a row");
    }
    const std::int64_t total = cache_.length() + tokens.size(1);
    if (total <= cache_.capacity()) return;
    throw Error(Exit::config, "decoding would come to " + std::to_string(total) +
                                  " tokens, and there is room for " +
                                  std::to_string(cache_.capacity()) +
                                  ": shorten the prompt, or ask for fewer tokens");
  }

  LanguageModule& model_;
  std::int64_t rows_;
  KeyValueCache cache_;
};

}  // namespace

LanguageModule::LanguageModule(const config::LanguageModel& config, const std::string& kind,
                               std::uint64_t seed)
    : Module(seed), sizes_(config) {
  if (config.heads >= 1 && config.width % config.heads == 0) return;
  throw Error(Exit::config, "model.kind: " + kind + " has model.width " +
                                std::to_string(config.width) + ", which model.heads " +
                                std::to_string(config.heads) + " does not divide: change either");
}

void LanguageModule::require_fit(std::int64_t length) const {
  if (length <= sizes_.context) return;
  throw Error(Exit::config, "a sequence of " + std::to_string(length) +
                                " tokens is longer than model.context, which is " +
                                std::to_string(sizes_.context) +
                                ": make the data's sequences shorter, or raise model.context");
}

Output LanguageModule::run(const Batch& batch) {
  const std::int64_t length = batch.input.size(1);
  require_fit(length);
  Pass pass;
  pass.dropout = training() ? sizes_.dropout : 0;
  pass.attention.dropout = pass.dropout;
  pass.attention.causal = !batch.documents.defined();
  if (batch.documents.defined()) {
    pass.attention.mask = document_mask(batch.documents, compute_dtype(batch.input.device()));
  }
  Output output;
  output.hidden = hidden(batch.input, {batch.positions, 0, length}, pass);
  output.head = head_;
  return output;
}

at::Tensor LanguageModule::hidden(const at::Tensor& tokens, const Places& places,
                                  const Pass& pass) {
  Pass shared = pass;
  shared.rotation = rotation(places, tokens.device());
  at::Tensor x = embed(tokens, places);
  if (pass.dropout > 0) x = embedding_dropout(x, pass.dropout);
  for (std::int64_t i = 0; i < sizes_.layers; ++i) {
    x = run_block(
        i, [this, i, shared](const at::Tensor& input) { return block(i, input, shared); }, x);
  }
  return last_norm(x);
}

at::Tensor LanguageModule::continue_from(KeyValueCache& cache, const at::Tensor& tokens) {
  const std::int64_t past = cache.length();
  const std::int64_t count = tokens.size(1);
  Pass pass;
  pass.attention.cache = &cache;
  pass.attention.causal = past == 0 && count > 1;
  if (past > 0 && count > 1) {
    pass.attention.mask =
        continuation_mask(past, count, tokens.options().dtype(compute_dtype(tokens.device())));
  }
  const at::Tensor x = hidden(tokens, {{}, past, past + count}, pass);
  cache.advance(count);
  return x;
}

std::unique_ptr<Decoder> LanguageModule::decoder(std::int64_t rows, std::int64_t capacity) {
  const std::int64_t room = capacity == 0 ? sizes_.context : capacity;
  require_fit(room);
  return std::make_unique<CachedDecoder>(*this, sizes_.layers, rows, room);
}

}  // namespace trainer::models

// Text that a language model writes.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "config/experiment.h"
#include "data/text/tokenizer.h"
#include "models/model.h"

namespace trainer::engine {

struct Sampling {
  double temperature = 1;  // 0: always the likeliest token, the first of equal ones
  std::int64_t top_k = 0;  // among so many likeliest tokens; 0: among all
  double top_p = 1;        // among the likeliest tokens that together have this probability
};

// The index that `draw`, of [0, 1), falls on in the distribution that `sampling` makes of the
// logits: first the temperature, then top_k, then top_p (Holtzman et al. 2019). Throws
// Error(not_finite) where a logit is NaN or positive infinity.
std::size_t choose_token(std::span<const float> logits, const Sampling& sampling, double draw);

// Cuts a stream of bytes where characters end, so that what has been given out is always UTF-8.
// Bytes that are none become U+FFFD.
class Utf8Stream {
 public:
  // What is complete with `bytes`.
  std::string take(std::string_view bytes);
  // What is left; the stream is empty then.
  std::string finish();

 private:
  std::string pending_;
};

struct TextRequest {
  std::string prompt;
  std::int64_t max_tokens = 0;
  Sampling sampling;
  std::uint64_t seed = 0;  // equal seeds and samples draw equal numbers
  std::uint64_t sample = 0;
};

// Note [A full context]: where the model's context is full, the last half of its tokens is computed
// anew as the start of a context of their own, and writing goes on.
class TextGenerator {
 public:
  // All of it outlives the generator. `vocabulary` is the model's.
  TextGenerator(models::Model& model, const data::Tokenizer& tokenizer, std::int64_t vocabulary,
                const config::Precision& precision, at::Device device);
  ~TextGenerator();

  // `put` gets what follows the prompt, valid UTF-8, as it is made; special tokens are left out.
  // Ends with the tokenizer's end token, or after max_tokens. The prompt's own special tokens may
  // be spelt out in it. As in training documents the tokenizer's first token stands before it,
  // where it has one that is not its last. Uses no random generator but its own, and wants the
  // model in evaluation mode. Throws Error(usage) where the prompt makes no token or does not fit
  // the context.
  void generate(const TextRequest& request, const std::function<void(std::string_view)>& put);

 private:
  // float32 [vocabulary] of what follows `tokens`, on the CPU.
  at::Tensor logits_after(std::span<const data::TokenId> tokens);

  const data::Tokenizer& tokenizer_;
  std::int64_t vocabulary_;
  config::Precision precision_;
  at::Device device_;
  std::unique_ptr<models::Decoder> decoder_;
};

// log.samples: what a model in training writes. It leaves no trace in the training.
class SampleWriter {
 public:
  // `use` as Session::use gives it. Throws Error(config) where the data has no tokenizer,
  // or the prompt does not fit.
  SampleWriter(const config::Experiment& experiment, const nlohmann::json& use);
  // Logs a text after step `step`. Leaves the model in training mode.
  void write(models::Model& model, at::Device device, std::int64_t step) const;

 private:
  config::SampleText wanted_;
  config::Precision precision_;
  std::uint64_t seed_;
  std::int64_t vocabulary_;
  std::shared_ptr<const data::Tokenizer> tokenizer_;
};

// The tokenizer of the experiment's data; `alphabet` as Session::use has it. Throws Error(config)
// where there is none.
std::shared_ptr<const data::Tokenizer> tokenizer_of(const config::Experiment& experiment,
                                                    const std::string& alphabet);

}  // namespace trainer::engine

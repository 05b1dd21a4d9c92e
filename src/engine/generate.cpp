#include "engine/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "core/log.h"
#include "core/random.h"
#include "data/text/text_corpus.h"
#include "engine/samples.h"
#include "precision/precision.h"

namespace trainer::engine {
namespace {

// Keeps these draws apart from others of the same seed.
constexpr std::uint64_t kGeneration = 0x67656e6572617465;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

std::size_t likeliest(std::span<const float> logits) {
  return static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The indices that are drawn from, in the order in which the draw passes them.
std::vector<std::size_t> candidates(std::span<const float> logits, const Sampling& sampling) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool cut = sampling.top_k > 0 && static_cast<std::size_t>(sampling.top_k) < order.size();
  if (!cut && sampling.top_p >= 1) return order;
  const std::size_t kept = cut ? static_cast<std::size_t>(sampling.top_k) : order.size();
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
                    });
  order.resize(kept);
  return order;
}

// Bytes of the character that starts with `lead`; 0 where none does.
std::size_t character_bytes(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Whether byte `at` of a character that starts with `lead` may be `byte` (Unicode's table 3-7).
bool continues(unsigned char lead, std::size_t at, unsigned char byte) {
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (at == 1) {
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  return byte >= low && byte <= high;
}

// Control characters would move a terminal's cursor.
std::string without_controls(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
    if (control)
      plain += kReplacement;
    else
      plain += c;
  }
  return plain;
}

// The bytes that each further token adds to the text. A token may be spelt otherwise at the start
// of a text, so each is decoded with the one before it.
class Spelling {
 public:
  Spelling(const data::Tokenizer& tokenizer, data::TokenId last)
      : tokenizer_(tokenizer), last_(last) {}

  std::string add(data::TokenId token) {
    const std::array<data::TokenId, 2> both{last_, token};
    const std::string before = tokenizer_.decode(std::span(both).first(1), /*special=*/false);
    std::string together = tokenizer_.decode(both, /*special=*/false);
    last_ = token;
    return together.substr(std::min(before.size(), together.size()));
  }

 private:
  const data::Tokenizer& tokenizer_;
  data::TokenId last_;
};

// What the model reads before it writes, as TextGenerator::generate says.
std::vector<data::TokenId> prompt_tokens(const data::Tokenizer& tokenizer,
                                         const std::string& prompt, std::int64_t context,
                                         std::int64_t vocabulary) {
  std::vector<data::TokenId> tokens;
  tokenizer.encode(prompt, tokens, /*special=*/true);
  const auto begin = tokenizer.begin();
  const bool begun = !tokens.empty() && tokens.front() == begin;
  if (begin && begin != tokenizer.end() && !begun) tokens.insert(tokens.begin(), *begin);
  // What follows the end of a document is the beginning of one.
  if (tokens.empty() && tokenizer.end()) tokens.push_back(*tokenizer.end());
  if (tokens.empty()) {
    throw Error(Exit::usage,
                "the prompt is empty, and the tokenizer has no token that a text begins with; give "
                "some text");
  }
  if (static_cast<std::int64_t>(tokens.size()) > context) {
    throw Error(Exit::usage, "the prompt has " + std::to_string(tokens.size()) +
                                 " tokens, and the model's context " + std::to_string(context) +
                                 "; shorten the prompt");
  }
  const data::TokenId largest = *std::max_element(tokens.begin(), tokens.end());
  if (largest >= vocabulary) {
    throw Error(Exit::config, "the tokenizer makes token " + std::to_string(largest) +
                                  " of the prompt, and the model's vocabulary has " +
                                  std::to_string(vocabulary) + "; it is not the model's own");
  }
  return tokens;
}

}  // namespace

std::size_t choose_token(std::span<const float> logits, const Sampling& sampling, double draw) {
  const std::size_t best = likeliest(logits);
  const bool has_nan =
      std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
  if (has_nan || !std::isfinite(logits[best]))
    throw Error(Exit::not_finite, "the model's output is not finite: its weights are damaged");
  if (sampling.temperature <= 0) return best;
  const std::vector<std::size_t> order = candidates(logits, sampling);
  std::vector<double> weights(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const double distance =
        static_cast<double>(logits[order[i]]) - static_cast<double>(logits[best]);
    weights[i] = std::exp(distance / sampling.temperature);
  }
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (sampling.top_p < 1) {
    const double wanted = sampling.top_p * sum;
    std::size_t kept = 0;
    for (sum = 0; kept < weights.size() && (kept == 0 || sum < wanted); ++kept)
      sum += weights[kept];
    weights.resize(kept);
  }
  double left = draw * sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return best;  // rounding took the draw past the last of them
}

std::string Utf8Stream::take(std::string_view bytes) {
  pending_ += bytes;
  std::string whole;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const auto lead = static_cast<unsigned char>(pending_[at]);
    const std::size_t length = character_bytes(lead);
    std::size_t good = length == 0 ? 0 : 1;
    while (good > 0 && good < length && at + good < pending_.size() &&
           continues(lead, good, static_cast<unsigned char>(pending_[at + good])))
      ++good;
    if (length > 0 && good == length) {
      whole.append(pending_, at, length);
    } else if (good > 0 && at + good == pending_.size()) {
      break;  // the rest may come
    } else {
      whole += kReplacement;
    }
    at += std::max<std::size_t>(1, good);
  }
  pending_.erase(0, at);
  return whole;
}

std::string Utf8Stream::finish() {
  const bool left = !pending_.empty();
  pending_.clear();
  return left ? std::string(kReplacement) : std::string();
}

TextGenerator::TextGenerator(models::Model& model, const data::Tokenizer& tokenizer,
                             std::int64_t vocabulary, const config::Precision& precision,
                             at::Device device)
    : tokenizer_(tokenizer),
      vocabulary_(vocabulary),
      precision_(precision),
      device_(device),
      decoder_(model.decoder(/*rows=*/1)) {}

TextGenerator::~TextGenerator() = default;

at::Tensor TextGenerator::logits_after(std::span<const data::TokenId> tokens) {
  const auto count = static_cast<std::int64_t>(tokens.size());
  const at::Tensor host = at::empty({1, count}, at::TensorOptions().dtype(at::kLong));
  std::copy(tokens.begin(), tokens.end(), host.mutable_data_ptr<std::int64_t>());
  return decoder_->step(host.to(device_)).select(0, 0).to(at::kFloat).cpu().contiguous();
}

void TextGenerator::generate(const TextRequest& request,
                             const std::function<void(std::string_view)>& put) {
  const at::NoGradGuard no_grad;
  // One for the whole text: its end clears the cache of cast weights.
  const precision::Scope autocast(precision_, device_);
  std::vector<data::TokenId> tokens =
      prompt_tokens(tokenizer_, request.prompt, decoder_->capacity(), vocabulary_);
  decoder_->clear();
  Stream random(mix(request.seed, kGeneration), StreamUse::step, request.sample, 0);
  Spelling spelling(tokenizer_, tokens.back());
  Utf8Stream utf8;
  // The padding that a model's vocabulary may have means nothing to the tokenizer.
  const auto known = static_cast<std::size_t>(std::min(vocabulary_, tokenizer_.vocabulary()));
  std::span<const data::TokenId> fresh = tokens;
  for (std::int64_t made = 0; made < request.max_tokens; ++made) {
    const at::Tensor logits = logits_after(fresh);
    const std::span<const float> values(logits.const_data_ptr<float>(), known);
    const auto token =
        static_cast<data::TokenId>(choose_token(values, request.sampling, random.uniform()));
    if (tokenizer_.end() == token) break;
    tokens.push_back(token);
    put(utf8.take(spelling.add(token)));
    fresh = std::span<const data::TokenId>(tokens).last(1);
    if (decoder_->length() < decoder_->capacity()) continue;
    decoder_->clear();  // see Note [A full context]
    const auto half = static_cast<std::size_t>(std::max<std::int64_t>(1, decoder_->capacity() / 2));
    fresh = std::span<const data::TokenId>(tokens).last(std::min(half, tokens.size()));
  }
  put(utf8.finish());
}

SampleWriter::SampleWriter(const config::Experiment& experiment, const nlohmann::json& use)
    : wanted_(*experiment.log.samples),
      precision_(experiment.precision),
      seed_(experiment.seed),
      vocabulary_(use.at("vocabulary").get<std::int64_t>()),
      tokenizer_(tokenizer_of(experiment, use.value("alphabet", std::string()))) {
  try {
    prompt_tokens(*tokenizer_, wanted_.prompt, config::language_model_of(experiment.model)->context,
                  vocabulary_);
  } catch (const Error& failure) {
    throw Error(Exit::config, std::string("log.samples.prompt: ") + failure.what());
  }
}

void SampleWriter::write(models::Model& model, at::Device device, std::int64_t step) const {
  struct Evaluating {
    models::Model& model;
    explicit Evaluating(models::Model& used) : model(used) { model.set_training(false); }
    ~Evaluating() { model.set_training(true); }
  } const evaluating(model);
  TextGenerator generator(model, *tokenizer_, vocabulary_, precision_, device);
  TextRequest request;
  request.prompt = wanted_.prompt;
  request.max_tokens = wanted_.tokens;
  request.sampling.temperature = wanted_.temperature;
  request.seed = seed_;
  request.sample = static_cast<std::uint64_t>(step);
  std::string text = wanted_.prompt;
  generator.generate(request, [&text](std::string_view more) { text += more; });
  log::info("sample after step " + std::to_string(step) + ":\n" + without_controls(text));
}

std::shared_ptr<const data::Tokenizer> tokenizer_of(const config::Experiment& experiment,
                                                    const std::string& alphabet) {
  const auto source = text_source(experiment.data.train);
  if (source) {
    const auto kept = alphabet.empty() ? std::optional<std::string>() : alphabet;
    if (auto tokenizer = data::open_tokenizer(*source, kept).tokenizer) return tokenizer;
  }
  throw Error(Exit::config,
              "writing text needs the tokenizer of the tokens in data.train, and they name none; "
              "give its path with --set data.train.tokenizer=PATH");
}

}  // namespace trainer::engine

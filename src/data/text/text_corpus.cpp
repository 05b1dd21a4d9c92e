#include "data/text/text_corpus.h"

#include <unistd.h>

#include <array>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "core/cpu.h"
#include "core/error.h"
#include "core/paths.h"
#include "data/sources/index_file.h"
#include "data/text/embedded_text.h"
#include "data/text/shard_manifest.h"
#include "data/text/tokenizing.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Kind = config::Tokenizer::Kind;

constexpr std::int64_t kTwoBytes = 65536;  // ids that two bytes hold

OpenedTokenizer characters(const std::string& alphabet) {
  return {make_character_tokenizer(alphabet), alphabet};
}

// `find_alphabet` is called only where there is none yet.
template <class FindAlphabet>
OpenedTokenizer open_kind(const config::Tokenizer& config,
                          const std::optional<std::string>& alphabet,
                          FindAlphabet&& find_alphabet) {
  switch (config.kind) {
    case Kind::bytes:
      return {make_byte_tokenizer(), ""};
    case Kind::characters:
      return characters(alphabet ? *alphabet : find_alphabet());
    case Kind::file:
      break;
  }
  return {load_tokenizer(config.path), ""};
}

// What the folder's manifest names.
OpenedTokenizer tokenizer_of_folder(const config::TokenFiles& config) {
  if (!fs::is_directory(config.path)) return {};
  const auto manifest = read_manifest(config.path);
  if (!manifest) return {};
  if (!manifest->alphabet.empty()) return characters(manifest->alphabet);
  if (manifest->tokenizer_path == "bytes") return {make_byte_tokenizer(), ""};
  std::error_code unknown;
  if (!fs::exists(manifest->tokenizer_path, unknown)) return {};
  OpenedTokenizer opened{load_tokenizer(manifest->tokenizer_path), ""};
  if (opened.tokenizer->fingerprint() == manifest->tokenizer) return opened;
  return {};
}

struct OpenTokenizer {
  const std::optional<std::string>& alphabet;

  OpenedTokenizer operator()(const config::TokenFiles& source) const {
    if (!source.tokenizer) return tokenizer_of_folder(source);
    return open_kind(*source.tokenizer, alphabet, [&]() -> std::string {
      OpenedTokenizer opened = tokenizer_of_folder(source);
      if (!opened.alphabet.empty()) return opened.alphabet;
      throw Error(Exit::data, printable(source.path) +
                                  ": the alphabet of its tokens is not known, so that they are no "
                                  "characters; name another tokenizer or none");
    });
  }
  OpenedTokenizer operator()(const config::TextFiles& source) const {
    return open_kind(source.tokenizer, alphabet,
                     [&] { return alphabet_of(*make_text_input(source), cpu_limit()); });
  }
  OpenedTokenizer operator()(const config::JsonlFiles& source) const {
    return open_kind(source.tokenizer, alphabet,
                     [&] { return alphabet_of(*make_jsonl_input(source), cpu_limit()); });
  }
  OpenedTokenizer operator()(const config::TinyShakespeare& source) const {
    return open_kind(source.tokenizer, alphabet,
                     [] { return alphabet_of(as_text(embedded::tinyshakespeare())); });
  }
};

// The tokens of one state of an input, in the cache folder.
class TokenCache {
 public:
  TokenCache(const TextInput& input, const Tokenizer& tokenizer) {
    Packer key;
    key.number(input.settings());
    key.number(tokenizer.fingerprint());
    origin_ = hash_text(key.bytes(), 1);
    std::array<char, 40> name{};
    std::snprintf(name.data(), name.size(), "tokens-%016" PRIx64 ".tokens",
                  hash_text(key.bytes(), 0));
    if (const auto folder = cache_folder()) path_ = *folder / name.data();
  }

  std::optional<TokenSegment> load() const {
    std::error_code unknown;
    if (path_.empty() || !fs::exists(path_, unknown)) return std::nullopt;
    try {
      TokenSegment shard = open_token_file(path_);
      if (shard.has_documents && origin_of(shard) == origin_ && is_whole(shard)) return shard;
    } catch (const Error&) {  // damaged: made again
    }
    return std::nullopt;
  }

  // Only a help: where it cannot be written, the next run makes the tokens again.
  void save(const TokenArrays& arrays, std::uint64_t tokenizer) const {
    if (path_.empty()) return;
    const fs::path temporary = path_.string() + "." + std::to_string(::getpid());
    try {
      write_token_shard(temporary, arrays, tokenizer, origin_);
    } catch (const Error&) {
      return;
    }
    std::error_code failure;
    fs::rename(temporary, path_, failure);
    if (failure) fs::remove(temporary, failure);
  }

 private:
  fs::path path_;
  std::uint64_t origin_ = 0;
};

[[noreturn]] void fail_empty(const std::string& name) {
  throw Error(Exit::data, name + ": the corpus is empty: its files make no tokens");
}

std::shared_ptr<const TokenArrays> tokenize_all(const TextInput& input,
                                                const Tokenizer& tokenizer) {
  auto arrays = std::make_shared<TokenArrays>(tokenizer.vocabulary() > kTwoBytes);
  tokenize_blocks(input, tokenizer, {}, cpu_limit(),
                  [&arrays](const TextBlock& /*block*/, TokenBlock&& tokens) {
                    arrays->append(tokens);
                    return true;
                  });
  if (arrays->size() == 0) fail_empty(input.name());
  return arrays;
}

TokenSegment tokens_of(const TextInput& input, const Tokenizer& tokenizer, bool cached,
                       std::int64_t looked_at) {
  const TokenCache cache(input, tokenizer);
  if (cached) {
    if (auto kept = cache.load()) {
      kept->name = input.name();
      return std::move(*kept);
    }
  }
  std::shared_ptr<const TokenArrays> arrays = tokenize_all(input, tokenizer);
  // A file that is being written may change again without another time of change.
  if (cached && settled({input.changed(), 0, 0}, looked_at))
    cache.save(*arrays, tokenizer.fingerprint());
  return segment_of(std::move(arrays), input.name(), tokenizer.fingerprint());
}

struct OpenCorpus {
  const Tokenizer* tokenizer;

  TokenCorpus operator()(const config::TokenFiles& source) const {
    TokenCorpus corpus = open_tokens(source.path);
    if (tokenizer == nullptr) return corpus;
    corpus.require_vocabulary(tokenizer->vocabulary());
    if (corpus.tokenizer().value_or(tokenizer->fingerprint()) != tokenizer->fingerprint()) {
      throw Error(Exit::data, printable(source.path) +
                                  ": its tokens were made by another tokenizer than " +
                                  tokenizer->describe() +
                                  "; name the one they were made by, or make them again");
    }
    return corpus;
  }
  TokenCorpus operator()(const config::TextFiles& source) const {
    const std::int64_t looked_at = now();
    const auto input = make_text_input(source);
    return TokenCorpus({tokens_of(*input, *tokenizer, source.cache, looked_at)},
                       "text " + input->name());
  }
  TokenCorpus operator()(const config::JsonlFiles& source) const {
    const std::int64_t looked_at = now();
    const auto input = make_jsonl_input(source);
    return TokenCorpus({tokens_of(*input, *tokenizer, source.cache, looked_at)},
                       "jsonl " + input->name());
  }
  TokenCorpus operator()(const config::TinyShakespeare& /*source*/) const {
    auto arrays = std::make_shared<TokenArrays>(tokenizer->vocabulary() > kTwoBytes);
    TokenBlock block;
    add_document(as_text(embedded::tinyshakespeare()), true, true, *tokenizer, block);
    arrays->append(block);
    return TokenCorpus({segment_of(std::move(arrays), "tinyshakespeare", tokenizer->fingerprint())},
                       "tinyshakespeare");
  }
};

}  // namespace

OpenedTokenizer open_tokenizer(const config::TextSource& source,
                               const std::optional<std::string>& alphabet) {
  return std::visit(OpenTokenizer{alphabet}, source);
}

TokenCorpus open_corpus(const config::TextSource& source, const Tokenizer* tokenizer) {
  return part_of(std::visit(OpenCorpus{tokenizer}, source), common(source));
}

const config::TokenSource& common(const config::TextSource& source) {
  return std::visit([](const auto& each) -> const config::TokenSource& { return each; }, source);
}

}  // namespace trainer::data

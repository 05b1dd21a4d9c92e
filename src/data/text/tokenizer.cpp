#include "data/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "data/sources/files.h"
#include "data/text/json_field.h"
#include "data/text/tokenizer_files.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

void check_id(TokenId id, std::int64_t vocabulary, const std::string& what) {
  if (id < 0 || id >= vocabulary)
    throw Error(Exit::data, what + ": there is no token " + std::to_string(id) +
                                "; the vocabulary has ids below " + std::to_string(vocabulary));
}

class ByteTokenizer : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<TokenId>& ids, bool) const override {
    ids.reserve(ids.size() + text.size());
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string text;
    for (const TokenId id : ids) {
      check_id(id, 256, "bytes");
      text += static_cast<char>(id);
    }
    return text;
  }
  std::int64_t vocabulary() const override { return 256; }
  std::optional<TokenId> find(std::string_view token) const override {
    if (token.size() != 1) return std::nullopt;
    return static_cast<unsigned char>(token.front());
  }
  std::optional<TokenId> begin() const override { return std::nullopt; }
  std::optional<TokenId> end() const override { return std::nullopt; }
  std::string describe() const override { return "bytes, 256 tokens"; }
  std::uint64_t fingerprint() const override { return hash_text("bytes", 0); }
};

class CharacterTokenizer : public Tokenizer {
 public:
  explicit CharacterTokenizer(std::string_view alphabet) {
    if (valid_utf8(alphabet) != alphabet.size())
      throw Error(Exit::data,
                  "the alphabet is no UTF-8 at byte " + std::to_string(valid_utf8(alphabet)));
    for (std::size_t at = 0, length; at < alphabet.size(); at += length) {
      length = utf8_length(alphabet[at]);
      points_.push_back(utf8_point(alphabet.data() + at, length));
    }
    std::sort(points_.begin(), points_.end());
    if (points_.empty()) throw Error(Exit::data, "the alphabet is empty; give it some characters");
    const auto twice = std::adjacent_find(points_.begin(), points_.end());
    if (twice != points_.end())
      throw Error(Exit::data, "the alphabet has " + code_point_name(*twice) + " twice");
    ascii_.fill(-1);
    for (std::size_t id = 0; id < points_.size() && points_[id] < 128; ++id)
      ascii_[points_[id]] = static_cast<TokenId>(id);
  }

  void encode(std::string_view text, std::vector<TokenId>& ids, bool) const override {
    ids.reserve(ids.size() + text.size());
    const std::size_t valid = valid_utf8(text);
    for (std::size_t at = 0, length; at < valid; at += length) {
      length = utf8_length(text[at]);
      ids.push_back(id_of(utf8_point(text.data() + at, length), at));
    }
    if (valid < text.size())
      throw Error(Exit::data, "the text is no UTF-8 at byte " + std::to_string(valid) +
                                  "; the tokenizer of characters needs it (use bytes instead)");
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    std::string text;
    for (const TokenId id : ids) {
      check_id(id, vocabulary(), "characters");
      append_utf8(text, points_[static_cast<std::size_t>(id)]);
    }
    return text;
  }
  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(points_.size()); }
  std::optional<TokenId> find(std::string_view token) const override {
    if (token.empty() || valid_utf8(token) != token.size() ||
        utf8_length(token.front()) != token.size())
      return std::nullopt;
    return position(utf8_point(token.data(), token.size()));
  }
  std::optional<TokenId> begin() const override { return std::nullopt; }
  std::optional<TokenId> end() const override { return std::nullopt; }
  std::string describe() const override {
    return "characters, " + std::to_string(vocabulary()) + " tokens";
  }
  std::uint64_t fingerprint() const override {
    std::string alphabet;
    for (const char32_t point : points_) append_utf8(alphabet, point);
    return hash_text(alphabet, hash_text("characters", 0));
  }

 private:
  std::optional<TokenId> position(char32_t point) const {
    const auto at = std::lower_bound(points_.begin(), points_.end(), point);
    if (at == points_.end() || *at != point) return std::nullopt;
    return static_cast<TokenId>(at - points_.begin());
  }
  TokenId id_of(char32_t point, std::size_t at) const {
    if (point < 128 && ascii_[point] >= 0) return ascii_[point];
    const auto id = position(point);
    if (!id)
      throw Error(Exit::data, "the character " + code_point_name(point) + " at byte " +
                                  std::to_string(at) +
                                  " of a text is not in the alphabet of the tokenizer of "
                                  "characters; make it from all of the texts, or use bytes");
    return *id;
  }

  std::vector<char32_t> points_;
  std::array<TokenId, 128> ascii_{};
};

// The token under `key`: a string, or an object with `content`; nullopt where it is null.
std::optional<std::string> named_token(const JsonField& field) {
  if (field.is_null()) return std::nullopt;
  if (field.value().is_object()) return field.at("content", true).text();
  return field.text();
}

// `said` tells whether the file has an opinion; null is one too.
std::optional<TokenId> configured(
    const JsonField& config, const std::string& key, bool& said,
    const std::function<std::optional<TokenId>(std::string_view)>& find) {
  said = config.has(key);
  if (!said) return std::nullopt;
  const JsonField field = config.at(key);
  const auto token = named_token(field);
  if (!token) return std::nullopt;
  const auto id = find(*token);
  if (!id) field.fail("\"" + printable(*token) + "\" is not in the vocabulary");
  return id;
}

template <typename Names>
std::optional<TokenId> well_known(
    const Names& names, const std::function<std::optional<TokenId>(std::string_view)>& find) {
  for (const char* name : names)
    if (const auto id = find(name)) return id;
  return std::nullopt;
}

std::unique_ptr<Tokenizer> load_folder(const fs::path& folder) {
  if (fs::exists(folder / "tokenizer.json")) return load_tokenizer_json(folder / "tokenizer.json");
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    return load_gpt2_files(folder / "vocab.json", folder / "merges.txt");
  if (fs::exists(folder / "tokenizer.model")) return load_sentencepiece(folder / "tokenizer.model");
  throw Error(Exit::data, printable(folder) +
                              ": has no tokenizer: neither tokenizer.json, nor vocab.json with "
                              "merges.txt, nor tokenizer.model");
}

}  // namespace

DocumentTokens document_tokens(
    const fs::path& folder, const std::function<std::optional<TokenId>(std::string_view)>& find) {
  static constexpr std::array kBegins{"<|begin_of_text|>", "<s>", "<bos>"};
  static constexpr std::array kEnds{"<|end_of_text|>", "<|endoftext|>", "</s>", "<eos>"};
  bool said_begin = false, said_end = false;
  DocumentTokens tokens;
  if (const fs::path file = folder / "tokenizer_config.json"; fs::exists(file)) {
    std::string content;
    const nlohmann::json json = parse_json_file(file.string(), content);
    const JsonField config(json, file.string(), "");
    tokens.begin = configured(config, "bos_token", said_begin, find);
    tokens.end = configured(config, "eos_token", said_end, find);
  }
  if (!said_begin) tokens.begin = well_known(kBegins, find);
  if (!said_end) tokens.end = well_known(kEnds, find);
  return tokens;
}

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view alphabet) {
  return std::make_unique<CharacterTokenizer>(alphabet);
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path) {
  const fs::path file(path);
  std::error_code failure;
  if (!fs::exists(file, failure))
    throw Error(Exit::data, printable(path) + ": there is no such tokenizer file or folder");
  if (fs::is_directory(file, failure)) return load_folder(file);
  const std::string name = file.filename().string();
  if (name == "vocab.json" || name == "merges.txt")
    return load_gpt2_files(file.parent_path() / "vocab.json", file.parent_path() / "merges.txt");
  if (file.extension() == ".json") return load_tokenizer_json(file);
  if (file.extension() == ".model") return load_sentencepiece(file);
  throw Error(Exit::data, printable(path) +
                              ": is no tokenizer; give a folder, tokenizer.json, vocab.json with "
                              "merges.txt beside it, or a SentencePiece .model");
}

}  // namespace trainer::data

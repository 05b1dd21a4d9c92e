#include "data/text/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "data/sources/files.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

Vocabulary model_vocabulary(const BpeParts& parts) {
  if (!parts.options.bytes) return parts.spelled;
  Vocabulary bytes;
  // A token with a character that writes no byte is never met in a text.
  for (const auto& [token, id] : parts.spelled)
    if (auto text = byte_level_bytes(token)) bytes.emplace(std::move(*text), id);
  return bytes;
}

class BpeTokenizer : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeParts parts)
      : parts_(std::move(parts)), bpe_(model_vocabulary(parts_), parts_.merges, parts_.options) {
    parts_.merges = {};
    for (const auto& [token, id] : parts_.spelled) spell(id, token);
    for (const AddedToken& token : parts_.added) add(token);
  }

  void encode(std::string_view text, std::vector<TokenId>& ids, bool special) const override {
    raw_.split(
        text, special,
        [&](std::size_t begin, std::size_t end) {
          stretch(text.substr(begin, end - begin), begin == 0, special, ids);
        },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  std::string decode(std::span<const TokenId> ids, bool special) const override {
    std::vector<std::string> tokens;
    tokens.reserve(ids.size());
    for (const TokenId id : ids) {
      const Spelling* const known = spelling(id);
      if (known == nullptr)
        throw Error(Exit::data, printable(parts_.file) + ": there is no token " +
                                    std::to_string(id) + "; the vocabulary has ids below " +
                                    std::to_string(spellings_.size()));
      if (special || !known->special) tokens.push_back(known->token);
    }
    for (const auto& decoder : parts_.decoders) decoder->apply(tokens);
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  }

  std::int64_t vocabulary() const override { return static_cast<std::int64_t>(spellings_.size()); }

  std::optional<TokenId> find(std::string_view token) const override {
    if (const auto at = added_ids_.find(token); at != added_ids_.end()) return at->second;
    if (const auto at = parts_.spelled.find(token); at != parts_.spelled.end()) return at->second;
    return std::nullopt;
  }

  std::optional<TokenId> begin() const override { return parts_.begin; }
  std::optional<TokenId> end() const override { return parts_.end; }

  std::string describe() const override {
    return std::string(parts_.options.bytes ? "byte-level" : "character-level") + " BPE of " +
           std::to_string(vocabulary()) + " tokens, " + printable(parts_.file);
  }

  std::uint64_t fingerprint() const override { return parts_.fingerprint; }

 private:
  struct Spelling {
    std::string token;
    bool known = false;
    bool special = false;
  };

  class Encoder final : public PieceSink {
   public:
    Encoder(const Bpe& bpe, std::vector<TokenId>& ids) : bpe_(bpe), ids_(ids) {}
    void piece(std::string_view text, Place) override { bpe_.encode(text, ids_); }

   private:
    const Bpe& bpe_;
    std::vector<TokenId>& ids_;
  };

  void spell(TokenId id, const std::string& token, bool special = false) {
    const auto at = static_cast<std::size_t>(id);
    if (at >= spellings_.size()) spellings_.resize(at + 1);
    spellings_[at] = {token, true, special};
  }

  void add(const AddedToken& token) {
    const std::string pattern = token.normalized ? normalised(token.content, false) : token.content;
    // Decoded as the text that it was found as. (The reference lets byte-level decoding read it,
    // and shows U+FFFD for an added token of U+00E9.) Tokens of the model are spelled as the model
    // does.
    const bool as_text = parts_.options.bytes && !parts_.spelled.contains(token.content);
    spell(token.id, as_text ? byte_level_spelling(pattern) : pattern, token.special);
    added_ids_.emplace(token.content, token.id);
    try {
      (token.normalized ? normalized_ : raw_).add(token, pattern);
    } catch (const Error& error) {
      throw Error(Exit::data, printable(parts_.file) + ": added_tokens: " + error.what());
    }
  }

  const Spelling* spelling(TokenId id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= spellings_.size()) return nullptr;
    const Spelling& found = spellings_[static_cast<std::size_t>(id)];
    return found.known ? &found : nullptr;
  }

  // Text between added tokens. Bytes that are no UTF-8 are tokens by themselves, and end a text.
  void stretch(std::string_view text, bool first, bool special, std::vector<TokenId>& ids) const {
    Place place{first, false};
    while (!text.empty()) {
      const std::size_t valid = valid_utf8(text);
      if (valid > 0) valid_stretch(text.substr(0, valid), place, special, ids);
      if (valid == text.size()) break;
      bpe_.encode_byte(static_cast<unsigned char>(text[valid]), ids);
      text.remove_prefix(valid + 1);
      place = {false, true};
    }
  }

  void valid_stretch(std::string_view text, Place place, bool special,
                     std::vector<TokenId>& ids) const {
    if (parts_.normalizers.empty()) return pieces(text, place, special, ids);
    pieces(normalised(text, place.joined), place, special, ids);
  }

  std::string normalised(std::string_view text, bool joined) const {
    std::string now(text), next;
    for (const auto& normalizer : parts_.normalizers) {
      if (now.empty()) break;
      next.clear();
      normalizer->apply(now, joined, next);
      std::swap(now, next);
    }
    return now;
  }

  void pieces(std::string_view text, Place place, bool special, std::vector<TokenId>& ids) const {
    Encoder encoder(bpe_, ids);
    normalized_.split(
        text, special,
        [&](std::size_t begin, std::size_t end) {
          pre_tokenize(parts_.pre_tokenizers, text.substr(begin, end - begin),
                       begin == 0 ? place : Place{}, encoder);
        },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  BpeParts parts_;
  Bpe bpe_;
  AddedTokens raw_, normalized_;
  Vocabulary added_ids_;
  std::vector<Spelling> spellings_;  // by id
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts) {
  return std::make_unique<BpeTokenizer>(std::move(parts));
}

}  // namespace trainer::data

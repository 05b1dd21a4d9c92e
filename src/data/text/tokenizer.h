// Text to token ids and back. No torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

using TokenId = std::int32_t;

// Read-only after construction; used from many threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Appends the ids of `text`, any bytes. Nothing is put before or after them. Special tokens that
  // are spelt out in the text become their ids only with `special`; data should not have them.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids, bool special) const = 0;
  // The bytes that the ids stand for: what `encode` got, where it lost nothing. Special tokens are
  // left out unless `special`. Throws Error(data) for an id outside the vocabulary.
  virtual std::string decode(std::span<const TokenId> ids, bool special) const = 0;
  // One past the largest id.
  virtual std::int64_t vocabulary() const = 0;
  // The id of a token as the vocabulary spells it ("<|endoftext|>").
  virtual std::optional<TokenId> find(std::string_view token) const = 0;
  // What stands before and after a document, where the tokenizer has such tokens.
  virtual std::optional<TokenId> begin() const = 0;
  virtual std::optional<TokenId> end() const = 0;
  // A line for the log: kind, vocabulary, file.
  virtual std::string describe() const = 0;
  // Changes when any text could become other ids.
  virtual std::uint64_t fingerprint() const = 0;
};

std::unique_ptr<Tokenizer> make_byte_tokenizer();
// One id a Unicode code point, in the order of the code points; `alphabet` is UTF-8, each of its
// code points once. `encode` throws Error(data) naming a code point that it lacks.
std::unique_ptr<Tokenizer> make_character_tokenizer(std::string_view alphabet);
// A Hugging Face folder or tokenizer.json, a folder with vocab.json and merges.txt (GPT-2's), or a
// SentencePiece tokenizer.model. Throws Error(data) naming the file and what is wrong in it.
std::unique_ptr<Tokenizer> load_tokenizer(const std::string& path);

}  // namespace trainer::data

// From tokens as the vocabulary spells them to text (tokenizer.json's `decoder`).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/regex.h"

namespace trainer::data {

class TokenDecoder {
 public:
  virtual ~TokenDecoder() = default;
  // Changes the list in place; in the end its strings are put together.
  virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using TokenDecoders = std::vector<std::unique_ptr<TokenDecoder>>;

// The reference puts U+FFFD for bytes that are no UTF-8; here they stay as they are.
std::unique_ptr<TokenDecoder> make_byte_level_decoder();
std::unique_ptr<TokenDecoder> make_byte_fallback_decoder();
std::unique_ptr<TokenDecoder> make_fuse_decoder();
std::unique_ptr<TokenDecoder> make_replace_decoder(std::string sought, std::string content);
std::unique_ptr<TokenDecoder> make_replace_decoder(Regex sought, std::string content);
// Takes at most `start` times `content` (one character) off the start of each token, and at most
// `stop` times off its end.
std::unique_ptr<TokenDecoder> make_strip_decoder(std::string content, std::size_t start,
                                                 std::size_t stop);
// `drop_first`: the first token has no space for a replacement, but nothing.
std::unique_ptr<TokenDecoder> make_metaspace_decoder(std::string replacement, bool drop_first);

// GPT-2's way to write bytes as printable characters: "Ġ" is a space.
// The bytes that `token` writes; nullopt where one of its characters writes none.
std::optional<std::string> byte_level_bytes(std::string_view token);

// The other way round.
std::string byte_level_spelling(std::string_view bytes);

// The byte of a token like <0x0A>.
std::optional<char> fallback_byte(std::string_view token);

}  // namespace trainer::data

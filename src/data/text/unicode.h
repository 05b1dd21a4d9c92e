// UTF-8 and the classes of characters that tokenizers split at, as the `tokenizers` package has
// them (tests/oracle/unicode_tables.py). They do not follow the Unicode version of any library
// here.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

struct CodeRange {
  char32_t first, last;
};
struct StandIn {
  char32_t first, last, stand_in;
};
struct CodePair {
  char32_t from, to;
};

struct UnicodeTables {
  std::span<const CodeRange> letters, numbers, spaces;  // \p{L}, \p{N} and \s of patterns
  std::span<const CodeRange> words;                     // \w around added tokens
  std::span<const CodeRange> numeric;                   // pre-tokenizer Digits
  // Normalisation leaves them alone, and orders or composes nothing across them.
  std::span<const CodeRange> inert;
  // Too new for PCRE2, each with one of its category, and as long in UTF-8, that PCRE2 knows.
  std::span<const StandIn> stand_ins;
  std::span<const CodePair> lower;  // lower-case letters beyond Unicode 14
};
const UnicodeTables& unicode_tables();

enum CharClass : std::uint8_t {
  kLetter = 1,
  kNumber = 2,
  kSpace = 4,
  kWord = 8,
  kNumericChar = 16,
  kInertChar = 32,
  kHasStandIn = 64,
};

// The classes of every code point in two levels: about 100 KB, of which text uses little.
class CharClasses {
 public:
  static const CharClasses& get();
  std::uint8_t of(char32_t point) const {
    return blocks_[std::size_t{index_[point >> 8]} * 256 + (point & 0xFF)];
  }

 private:
  CharClasses();
  std::array<std::uint16_t, 0x1100> index_{};
  std::vector<std::uint8_t> blocks_;
};

// How many of the first bytes are whole, valid UTF-8 (no surrogates, nothing overlong).
std::size_t valid_utf8(std::string_view text);

// The length of the character that starts with this byte of valid UTF-8.
inline std::size_t utf8_length(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `at` of valid UTF-8, which utf8_length() says to be `length` bytes long.
inline char32_t utf8_point(const char* at, std::size_t length) {
  const auto byte = [at](int i) {
    return static_cast<char32_t>(static_cast<unsigned char>(at[i]));
  };
  switch (length) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
             (byte(3) & 0x3F);
  }
}

// Where the last character of valid UTF-8 that is not empty starts.
inline std::size_t utf8_last(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

void append_utf8(std::string& text, char32_t point);

// How much at the start, and where what is at the end begins, is white space.
std::size_t spaces_at_start(std::string_view text);
std::size_t spaces_at_end(std::string_view text);

// Lower case of a character, appended. Character by character: a final sigma is like any other.
void append_lower(std::string& text, char32_t point);

// For messages: "U+0041".
std::string code_point_name(char32_t point);

}  // namespace trainer::data

// The patterns of GPT-2, Llama 3 and Qwen 2, written out.
#include <cstdint>

#include "data/text/pretokenizer.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

constexpr std::uint8_t kNotOther = kLetter | kNumber | kSpace;

constexpr std::uint8_t ascii_class(int c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return kLetter;
  if (c >= '0' && c <= '9') return kNumber;
  if (c == ' ' || (c >= 9 && c <= 13)) return kSpace;
  return 0;
}

struct AsciiClasses {
  std::uint8_t of[128];
  constexpr AsciiClasses() : of{} {
    for (int c = 0; c < 128; ++c) of[c] = ascii_class(c);
  }
};
constexpr AsciiClasses kAscii;

// Letter, number, space or none of them.
struct Char {
  std::uint8_t bits;
  std::uint8_t length;
};

Char beyond_ascii(const char* at) {
  const std::size_t length = utf8_length(*at);
  return {static_cast<std::uint8_t>(CharClasses::get().of(utf8_point(at, length)) & kNotOther),
          static_cast<std::uint8_t>(length)};
}

inline Char char_at(const char* at) {
  const auto byte = static_cast<unsigned char>(*at);
  if (byte < 128) return {kAscii.of[byte], 1};
  return beyond_ascii(at);
}

// The end of the run of characters of one class (0: none of the three) from `at`.
const char* run_end(const char* at, const char* end, std::uint8_t bits) {
  while (at < end) {
    const Char c = char_at(at);
    if (c.bits != bits) break;
    at += c.length;
  }
  return at;
}

bool is_newline(char c) { return c == '\r' || c == '\n'; }

// \s+(?!\S)|\s+ : the run, or all but its last character where something follows.
const char* spaces(const char* at, const char* end) {
  const char* const stop = run_end(at, end, kSpace);
  if (stop == end) return end;
  const char* const last = at + utf8_last({at, static_cast<std::size_t>(stop - at)});
  return last > at ? last : stop;
}

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe: its end, or nullptr. Where case is ignored, U+017F is
// an s.
const char* contraction(const char* at, const char* end, bool any_case) {
  const auto letter = [&](int i) -> char {
    if (end - at <= i) return '\0';
    const char c = at[i];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return at + 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? at + 3 : nullptr;
    case 'l':
      return letter(2) == 'l' ? at + 3 : nullptr;
    case '\xC5':
      return any_case && letter(2) == '\xBF' ? at + 3 : nullptr;
    default:
      return nullptr;
  }
}

const char* gpt2_piece(const char* begin, const char* end) {
  if (*begin == '\'')
    if (const char* const stop = contraction(begin, end, false)) return stop;
  const char* at = *begin == ' ' && begin + 1 < end ? begin + 1 : begin;
  const Char c = char_at(at);
  if (c.bits == kSpace) return spaces(begin, end);
  return run_end(at + c.length, end, c.bits);
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the run, where it has one.
const char* lines_or_spaces(const char* at, const char* end) {
  const char* const stop = run_end(at, end, kSpace);
  for (const char* last = stop; last > at; --last)
    if (is_newline(last[-1])) return last;
  return spaces(at, end);
}

const char* numbers(const char* at, const char* end, int most) {
  for (int count = 0; count < most && at < end; ++count) {
    const Char c = char_at(at);
    if (c.bits != kNumber) break;
    at += c.length;
  }
  return at;
}

// Llama 3's pattern takes three digits at most, Qwen 2's one.
template <int kDigits>
const char* cl100k_piece(const char* begin, const char* end) {
  if (*begin == '\'')
    if (const char* const stop = contraction(begin, end, true)) return stop;
  const Char c = char_at(begin);
  const char* const next = begin + c.length;
  if (c.bits == kLetter) return run_end(next, end, kLetter);
  if (c.bits == kNumber) return numbers(next, end, kDigits - 1);
  if (next < end && !is_newline(*begin)) {
    const Char second = char_at(next);
    if (second.bits == kLetter) return run_end(next + second.length, end, kLetter);
    if (*begin == ' ' && second.bits == 0) {
      const char* stop = run_end(next + second.length, end, 0);
      while (stop < end && is_newline(*stop)) ++stop;
      return stop;
    }
  }
  if (c.bits == kSpace) return lines_or_spaces(begin, end);
  const char* stop = run_end(next, end, 0);
  while (stop < end && is_newline(*stop)) ++stop;
  return stop;
}

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

PieceEnd piece_end_of(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return gpt2_piece;
  if (pattern == kLlama3Pattern) return cl100k_piece<3>;
  if (pattern == kQwen2Pattern) return cl100k_piece<1>;
  return nullptr;
}

}  // namespace trainer::data

#include "data/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace trainer::data {
namespace {

constexpr std::size_t kPoints = 0x110000;

template <typename Ranges>
void mark(std::vector<std::uint8_t>& flat, const Ranges& ranges, std::uint8_t bit) {
  for (const auto& range : ranges)
    for (char32_t point = range.first; point <= range.last; ++point) flat[point] |= bit;
}

bool continues(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// The length of the valid character at the start of `left` bytes, or 0.
std::size_t valid_character(const unsigned char* at, std::size_t left) {
  const unsigned char lead = at[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t length = utf8_length(static_cast<char>(lead));
  if (left < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(at[i])) return 0;
  if (lead == 0xE0 && at[1] < 0xA0) return 0;  // overlong
  if (lead == 0xED && at[1] > 0x9F) return 0;  // surrogates
  if (lead == 0xF0 && at[1] < 0x90) return 0;  // overlong
  if (lead == 0xF4 && at[1] > 0x8F) return 0;  // beyond U+10FFFF
  return length;
}

}  // namespace

CharClasses::CharClasses() {
  const UnicodeTables& tables = unicode_tables();
  std::vector<std::uint8_t> flat(kPoints);
  mark(flat, tables.letters, kLetter);
  mark(flat, tables.numbers, kNumber);
  mark(flat, tables.spaces, kSpace);
  mark(flat, tables.words, kWord);
  mark(flat, tables.numeric, kNumericChar);
  mark(flat, tables.inert, kInertChar);
  mark(flat, tables.stand_ins, kHasStandIn);
  std::map<std::string_view, std::uint16_t> known;
  for (std::size_t block = 0; block < index_.size(); ++block) {
    const std::string_view bytes(reinterpret_cast<const char*>(flat.data()) + block * 256, 256);
    const auto [at, added] = known.emplace(bytes, static_cast<std::uint16_t>(known.size()));
    if (added) blocks_.insert(blocks_.end(), bytes.begin(), bytes.end());
    index_[block] = at->second;
  }
}

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

std::size_t valid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight characters of ASCII at a time.
    std::uint64_t eight;
    while (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, bytes + at, sizeof eight);
      if ((eight & 0x8080808080808080U) != 0) break;
      at += sizeof eight;
    }
    if (at == text.size()) break;
    const std::size_t length = valid_character(bytes + at, text.size() - at);
    if (length == 0) break;
    at += length;
  }
  return at;
}

void append_utf8(std::string& text, char32_t point) {
  const auto add = [&text](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | point >> 6);
    add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  }
}

std::size_t spaces_at_start(std::string_view text) {
  const CharClasses& classes = CharClasses::get();
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = utf8_length(text[at]);
    if ((classes.of(utf8_point(text.data() + at, length)) & kSpace) == 0) break;
    at += length;
  }
  return at;
}

std::size_t spaces_at_end(std::string_view text) {
  const CharClasses& classes = CharClasses::get();
  while (!text.empty()) {
    const std::size_t last = utf8_last(text);
    if ((classes.of(utf8_point(text.data() + last, text.size() - last)) & kSpace) == 0) break;
    text = text.substr(0, last);
  }
  return text.size();
}

void append_lower(std::string& text, char32_t point) {
  if (point == 0x130) {  // the one that becomes two
    append_utf8(text, 'i');
    append_utf8(text, 0x307);
    return;
  }
  const auto pairs = unicode_tables().lower;
  const auto at =
      std::lower_bound(pairs.begin(), pairs.end(), point,
                       [](const CodePair& pair, char32_t sought) { return pair.from < sought; });
  if (at != pairs.end() && at->from == point)
    append_utf8(text, at->to);
  else
    append_utf8(text,
                static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point))));
}

std::string code_point_name(char32_t point) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string name;
  for (int shift = point > 0xFFFFF ? 20 : point > 0xFFFF ? 16 : 12; shift >= 0; shift -= 4)
    name += kDigits[point >> shift & 0xF];
  return "U+" + name;
}

}  // namespace trainer::data

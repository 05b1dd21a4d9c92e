#include "config/scalar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "config/node.h"
#include "core/text.h"

namespace trainer::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words)
    if (text == word) return true;
  return false;
}

// The number of leading characters that `accept` takes.
template <class Accept>
std::size_t span(std::string_view text, Accept accept) {
  std::size_t n = 0;
  while (n < text.size() && accept(text[n])) ++n;
  return n;
}

bool based_integer(std::string_view text) {
  const auto hexadecimal = [](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  const auto octal = [](char c) { return c >= '0' && c <= '7'; };
  if (text.size() < 3) return false;
  const std::string_view digits = text.substr(2);
  if (text.starts_with("0x")) return span(digits, hexadecimal) == digits.size();
  if (text.starts_with("0o")) return span(digits, octal) == digits.size();
  return false;
}

// [0-9]+ or [0-9]* . [0-9]* with a digit, then an exponent.
ScalarKind decimal(std::string_view text) {
  const std::size_t whole = span(text, is_digit);
  std::string_view rest = text.substr(whole);
  if (rest.empty() && whole > 0)
    return whole > 1 && text[0] == '0' ? ScalarKind::leading_zero : ScalarKind::integer;
  std::size_t fraction = 0;
  if (rest.starts_with('.')) {
    fraction = span(rest.substr(1), is_digit);
    rest.remove_prefix(1 + fraction);
  }
  if (whole + fraction == 0) return ScalarKind::text;
  if (!rest.empty()) {
    if (rest[0] != 'e' && rest[0] != 'E') return ScalarKind::text;
    rest.remove_prefix(1);
    if (rest.starts_with('+') || rest.starts_with('-')) rest.remove_prefix(1);
    if (rest.empty() || span(rest, is_digit) != rest.size()) return ScalarKind::text;
  }
  return whole > 1 && text[0] == '0' ? ScalarKind::leading_zero : ScalarKind::number;
}

struct UnitWord {
  std::string_view word;
  Length::Unit unit;
  double factor;
};
constexpr std::array<UnitWord, 12> kUnits{{{"steps", Length::Unit::steps, 1},
                                           {"step", Length::Unit::steps, 1},
                                           {"epochs", Length::Unit::epochs, 1},
                                           {"epoch", Length::Unit::epochs, 1},
                                           {"samples", Length::Unit::samples, 1},
                                           {"sample", Length::Unit::samples, 1},
                                           {"tokens", Length::Unit::tokens, 1},
                                           {"token", Length::Unit::tokens, 1},
                                           {"s", Length::Unit::seconds, 1},
                                           {"min", Length::Unit::seconds, 60},
                                           {"h", Length::Unit::seconds, 3600},
                                           {"d", Length::Unit::seconds, 86400}}};

// Characters of the number at the start of `text`, without sign or exponent; 0 where there is none.
std::size_t number_span(std::string_view text) {
  std::size_t digits = span(text, is_digit);
  if (digits > 0 && digits < text.size() && text[digits] == '.')
    digits += 1 + span(text.substr(digits + 1), is_digit);
  return digits > 0 && text[digits - 1] == '.' ? 0 : digits;
}

std::string_view without_spaces(std::string_view text) {
  return text.substr(span(text, [](char c) { return c == ' '; }));
}

// Beyond this a count is not exact in a double.
constexpr double kLargestLength = 9e15;
constexpr double kSmallestLength = 1e-6;

std::string unknown_unit(std::string_view unit) {
  const std::vector<std::string> words{"steps", "epochs", "samples", "tokens",
                                       "s",     "min",    "h",       "d"};
  static const std::array<std::array<std::string_view, 2>, 10> kOther{{{"sec", "s"},
                                                                       {"secs", "s"},
                                                                       {"second", "s"},
                                                                       {"seconds", "s"},
                                                                       {"m", "min"},
                                                                       {"mins", "min"},
                                                                       {"minutes", "min"},
                                                                       {"hours", "h"},
                                                                       {"hour", "h"},
                                                                       {"days", "d"}}};
  std::string near;
  for (const auto& [other, right] : kOther)
    if (unit == other) near = right;
  if (near.empty()) near = nearest(unit, words);
  const std::string message = "unknown unit " + quote(unit) + "; ";
  if (!near.empty()) return message + "did you mean \"" + near + "\"?";
  return message + "units are steps, epochs, samples, tokens, s, min, h and d";
}

struct SizeUnit {
  std::string_view word;
  std::int64_t bytes;
};
// Binary ones first and falling, for format_size and for the meaning of a lone G.
constexpr std::array<SizeUnit, 8> kSizeUnits{{{"TiB", std::int64_t{1} << 40},
                                              {"GiB", std::int64_t{1} << 30},
                                              {"MiB", std::int64_t{1} << 20},
                                              {"KiB", std::int64_t{1} << 10},
                                              {"TB", 1'000'000'000'000},
                                              {"GB", 1'000'000'000},
                                              {"MB", 1'000'000},
                                              {"kB", 1'000}}};
constexpr std::size_t kBinaryUnits = 4;
constexpr const char* kNoSize = "it has to be more than 0";

std::string lower(std::string_view text) {
  std::string small(text);
  for (char& c : small)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return small;
}

std::string unknown_size_unit(std::string_view unit) {
  const std::string message = "unknown unit " + quote(unit) + "; ";
  const std::string small = lower(unit);
  if (small == "b" || small == "byte" || small == "bytes")
    return message + "a number alone is bytes";
  for (const SizeUnit& candidate : kSizeUnits) {
    const std::string right = lower(candidate.word);
    // G, Gi and gib.
    if (small == right || small == right.substr(0, 1) || small + "b" == right)
      return message + "did you mean \"" + std::string(candidate.word) + "\"?";
  }
  return message + "units are KiB, MiB, GiB, TiB, kB, MB, GB and TB";
}

// `count` times `unit` bytes.
ParsedSize whole_size(const Integer& count, std::int64_t unit) {
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max() / unit);
  if (count.negative) return {std::nullopt, kNoSize};
  if (count.overflow || count.magnitude > most) return {std::nullopt, "the size is too large"};
  if (count.magnitude == 0) return {std::nullopt, kNoSize};
  return {static_cast<std::int64_t>(count.magnitude) * unit, {}};
}

ParsedSize broken_size(double count, std::int64_t unit) {
  const double bytes = std::round(count * static_cast<double>(unit));
  if (!(bytes < 0x1p63)) return {std::nullopt, "the size is too large"};
  if (bytes < 1) return {std::nullopt, kNoSize};
  return {static_cast<std::int64_t>(bytes), {}};
}

ParsedSize size_with_unit(std::string_view number, std::string_view unit) {
  for (const SizeUnit& candidate : kSizeUnits) {
    if (candidate.word != unit) continue;
    return number.find('.') == std::string_view::npos
               ? whole_size(parse_integer(number), candidate.bytes)
               : broken_size(parse_number(number), candidate.bytes);
  }
  return {std::nullopt, unknown_size_unit(unit)};
}

}  // namespace

ScalarKind classify(std::string_view plain) {
  if (one_of(plain, {"", "~", "null", "Null", "NULL"})) return ScalarKind::null;
  if (one_of(plain, {"true", "True", "TRUE", "false", "False", "FALSE"}))
    return ScalarKind::boolean;
  if (based_integer(plain)) return ScalarKind::integer;
  std::string_view unsigned_part = plain;
  if (plain[0] == '+' || plain[0] == '-') unsigned_part.remove_prefix(1);
  if (one_of(unsigned_part, {".inf", ".Inf", ".INF"})) return ScalarKind::not_finite;
  if (one_of(plain, {".nan", ".NaN", ".NAN"})) return ScalarKind::not_finite;
  return decimal(unsigned_part);
}

Integer parse_integer(std::string_view plain) {
  Integer result;
  int base = 10;
  if (plain.starts_with("0x") || plain.starts_with("0o")) {
    base = plain[1] == 'x' ? 16 : 8;
    plain.remove_prefix(2);
  } else if (plain.starts_with('+') || plain.starts_with('-')) {
    result.negative = plain[0] == '-';
    plain.remove_prefix(1);
  }
  const auto [end, error] =
      std::from_chars(plain.data(), plain.data() + plain.size(), result.magnitude, base);
  result.overflow = error != std::errc{} || end != plain.data() + plain.size();
  return result;
}

double parse_number(std::string_view plain) {
  if (based_integer(plain)) {
    const Integer integer = parse_integer(plain);
    return integer.overflow ? std::numeric_limits<double>::infinity()
                            : static_cast<double>(integer.magnitude);
  }
  if (plain.starts_with('+')) plain.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error == std::errc::result_out_of_range) {
    // from_chars does not tell overflow from underflow: a negative exponent is the latter.
    const std::size_t exponent = plain.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos && plain.substr(exponent + 1)[0] == '-';
    return tiny ? 0.0 : std::numeric_limits<double>::infinity();
  }
  return value;
}

std::string format_number(double value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return std::string(text.data(), error == std::errc{} ? end : text.data());
}

ParsedLength parse_length(std::string_view text) {
  const std::size_t digits = number_span(text);
  if (digits == 0)
    return {std::nullopt, "a length starts with a number, as in 500 steps, 2 epochs or 10min"};
  double value = parse_number(text.substr(0, digits));
  std::string_view rest = text.substr(digits);
  double multiplier = 1;
  if (!rest.empty()) {
    if (rest[0] == 'k' || rest[0] == 'K') multiplier = 1e3;
    if (rest[0] == 'M') multiplier = 1e6;
    if (rest[0] == 'G') multiplier = 1e9;
    if (multiplier > 1) rest.remove_prefix(1);
  }
  rest = without_spaces(rest);
  if (rest.empty())
    return {std::nullopt, "add a unit: steps, epochs, samples, tokens, s, min, h or d"};
  const UnitWord* unit = nullptr;
  for (const UnitWord& candidate : kUnits)
    if (candidate.word == rest) unit = &candidate;
  if (unit == nullptr) return {std::nullopt, unknown_unit(rest)};
  if (multiplier > 1 && unit->unit == Length::Unit::seconds)
    return {std::nullopt, "K, M and G go with steps, epochs, samples and tokens, not with a time"};
  value *= multiplier * unit->factor;
  if (!(value <= kLargestLength)) return {std::nullopt, "the length is too large"};
  if (value > 0 && value < kSmallestLength) return {std::nullopt, "the length is too small"};
  const bool whole = unit->unit != Length::Unit::seconds && unit->unit != Length::Unit::epochs;
  if (whole && value != std::floor(value))
    return {std::nullopt, "a number of " + unit_name(unit->unit) + " is whole"};
  return {Length{value, unit->unit}, {}};
}

std::string format_length(const Length& length) {
  std::array<char, 64> text{};
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), length.value, std::chars_format::fixed);
  const std::string number(text.data(), error == std::errc{} ? end : text.data());
  return length.unit == Length::Unit::seconds ? number + "s"
                                              : number + " " + unit_name(length.unit);
}

std::string unit_name(Length::Unit unit) {
  switch (unit) {
    case Length::Unit::steps:
      return "steps";
    case Length::Unit::epochs:
      return "epochs";
    case Length::Unit::samples:
      return "samples";
    case Length::Unit::tokens:
      return "tokens";
    case Length::Unit::seconds:
      return "time";
  }
  return "";
}

ParsedSize parse_size(std::string_view text) {
  const ScalarKind kind = classify(text);
  if (kind == ScalarKind::integer) return whole_size(parse_integer(text), 1);
  if (kind == ScalarKind::leading_zero)
    return {std::nullopt,
            "a leading zero means octal to some YAML readers, write the number without it"};
  if (kind == ScalarKind::number)
    return {std::nullopt, "a number of bytes is whole; add a unit such as MiB"};
  const std::size_t digits = number_span(text);
  if (digits > 0)
    return size_with_unit(text.substr(0, digits), without_spaces(text.substr(digits)));
  if (text.starts_with('-') && number_span(text.substr(1)) > 0) return {std::nullopt, kNoSize};
  return {std::nullopt, "a size starts with a number, as in 512MiB or 1.5GB"};
}

std::string format_size(std::int64_t bytes) {
  for (std::size_t i = 0; i < kBinaryUnits; ++i)
    if (bytes % kSizeUnits[i].bytes == 0)
      return std::to_string(bytes / kSizeUnits[i].bytes).append(kSizeUnits[i].word);
  return std::to_string(bytes);
}

std::optional<Device> parse_device(std::string_view text) {
  if (text == "auto") return Device{DeviceKind::automatic, 0};
  if (text == "cpu") return Device{DeviceKind::cpu, 0};
  if (text == "cuda") return Device{DeviceKind::cuda, 0};
  if (!text.starts_with("cuda:")) return std::nullopt;
  const std::string_view index = text.substr(5);
  if (index.empty() || index.size() > 2 || span(index, is_digit) != index.size())
    return std::nullopt;
  if (index.size() == 2 && index[0] == '0') return std::nullopt;
  return Device{DeviceKind::cuda, static_cast<int>(parse_integer(index).magnitude)};
}

std::string format_device(const Device& device) {
  switch (device.kind) {
    case DeviceKind::automatic:
      return "auto";
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::cuda:
      return device.index == 0 ? "cuda" : "cuda:" + std::to_string(device.index);
  }
  return "";
}

}  // namespace trainer::config

// Scalars: what a plain YAML 1.2 scalar is, and the units of the experiment file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/experiment.h"

namespace trainer::config {

// The core schema of YAML 1.2, with the traps named: `010` (an octal number in YAML 1.1), and
// numbers that are no number.
enum class ScalarKind { null, boolean, integer, number, not_finite, leading_zero, text };
ScalarKind classify(std::string_view plain);

struct Integer {
  bool negative = false;
  std::uint64_t magnitude = 0;
  bool overflow = false;  // beyond 64 bits
};
// Of what `classify` calls an integer: decimal, 0x hexadecimal or 0o octal.
Integer parse_integer(std::string_view plain);
// Of what `classify` calls an integer or a number. Infinite where it is beyond a double.
double parse_number(std::string_view plain);

// The shortest text that reads back to the same value.
std::string format_number(double value);

// Either a length or what is wrong with it.
struct ParsedLength {
  std::optional<Length> length;
  std::string problem;
};
ParsedLength parse_length(std::string_view text);
std::string format_length(const Length& length);
// "steps", "epochs", "samples", "tokens", "time".
std::string unit_name(Length::Unit unit);

// Either a number of bytes, above 0, or what is wrong with it. Units are kB, MB, GB and TB (powers
// of 1000) and KiB, MiB, GiB and TiB (powers of 1024); an integer alone is bytes. Parts of a byte
// are rounded to the nearest.
struct ParsedSize {
  std::optional<std::int64_t> bytes;
  std::string problem;
};
ParsedSize parse_size(std::string_view text);
// In the largest binary unit that gives a whole number, else in bytes. `bytes` is above 0.
std::string format_size(std::int64_t bytes);

// auto | cpu | cuda | cuda:N
std::optional<Device> parse_device(std::string_view text);
std::string format_device(const Device& device);

}  // namespace trainer::config

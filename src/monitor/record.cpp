#include "monitor/record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "monitor/format.h"

namespace trainer::monitor {
namespace {

std::string double_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  std::string shortest(text.data(), end);
  if (shortest.find_first_of(".e") == std::string::npos) shortest += ".0";
  return shortest;
}

}  // namespace

const Value* Record::find(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const auto& field) { return field.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

double as_double(const Value& value) {
  return std::visit([](auto number) { return static_cast<double>(number); }, value);
}

bool is_finite(const Value& value) { return std::isfinite(as_double(value)); }

std::string number_text(const Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return std::to_string(*whole);
  return double_text(std::get<double>(value));
}

std::string json_number(const Value& value) {
  return is_finite(value) ? number_text(value) : '"' + number_text(value) + '"';
}

}  // namespace trainer::monitor

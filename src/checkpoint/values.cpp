#include "checkpoint/values.h"

#include <cmath>
#include <limits>
#include <string_view>

namespace trainer::checkpoint {
namespace {

constexpr const char* kTag = "float";

void encode(nlohmann::json& value) {
  if (value.is_structured()) {
    for (nlohmann::json& element : value) encode(element);
  } else if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    const std::string_view name = std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
    value = nlohmann::json::object({{kTag, name}});
  }
}

void decode(nlohmann::json& value) {
  if (value.is_object() && value.size() == 1 && value.contains(kTag)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (value[kTag] == "nan")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (value[kTag] == "inf")
      value = kInfinity;
    else if (value[kTag] == "-inf")
      value = -kInfinity;
  }
  if (value.is_structured())
    for (nlohmann::json& element : value) decode(element);
}

}  // namespace

std::string dump_values(const nlohmann::json& values) {
  nlohmann::json encoded = values;
  encode(encoded);
  // Paths need not be UTF-8; a saved run matters more than one character of such a name.
  return encoded.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

nlohmann::json parse_values(const std::string& text) {
  nlohmann::json values = nlohmann::json::parse(text);
  decode(values);
  return values;
}

}  // namespace trainer::checkpoint

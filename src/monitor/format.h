// Numbers as text. Internal.
#pragma once

#include <string>

#include "monitor/record.h"

namespace trainer::monitor {

// The shortest text that reads back as exactly this number; a double always with a point or an
// exponent, so that its type reads back too. Not finite: nan, inf, -inf.
std::string number_text(const Value& value);
// The same as JSON, which has no word for numbers that are not finite: "nan", "inf", "-inf".
std::string json_number(const Value& value);

bool is_finite(const Value& value);
double as_double(const Value& value);

}  // namespace trainer::monitor

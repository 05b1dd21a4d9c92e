// state.json: the parts' plain values, so that each number reads back exactly. Internal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trainer::checkpoint {

// JSON has no infinities and no NaN: they are written as {"float": "inf" | "-inf" | "nan"}.
std::string dump_values(const nlohmann::json& values);
// Throws nlohmann::json::exception for text that is not JSON.
nlohmann::json parse_values(const std::string& text);

}  // namespace trainer::checkpoint

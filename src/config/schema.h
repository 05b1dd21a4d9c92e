// Helpers for the JSON schema of the types.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "config/type.h"

namespace trainer::config {

struct Schema {
  Json definitions = Json::object();
};

Json any_of(std::vector<Json> alternatives);
// A scalar of schema `value`, or a string in which ${...} will be expanded.
Json or_variable(Json value);

}  // namespace trainer::config

// What `inspect` found, for people and for programs. No torch here.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tools/inspect.h"

namespace trainer::data {

struct InspectReport {
  std::vector<Inspection> sets;
  std::vector<SameContent> in_both;     // of train and val
  std::vector<std::string> mismatches;  // between the sets; a sentence each

  // Broken files, classes without a sample, equal content in different classes, and mismatches; a
  // line each, counted. Empty where training can go ahead. Equal content in one class, in one set
  // or in both, is reported but no problem of this kind: it spoils figures, not the training.
  std::vector<std::string> problems() const;
};

// Lines to print. Lists are cut off after `most` entries, with the number of the others.
std::string to_text(const InspectReport& report, std::size_t most = 50);

// All of it, nothing cut off.
nlohmann::json to_json(const InspectReport& report);

}  // namespace trainer::data

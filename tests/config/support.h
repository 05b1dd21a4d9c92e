// Small experiments for the tests of this room.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/load.h"

namespace trainer::config::testing {

// The smallest experiment, with `more` below it.
inline std::string minimal(const std::string& more = {}) {
  return "model: {kind: lenet}\ndata: {train: {kind: digits}}\noptim: {kind: sgd}\n" + more;
}

inline std::vector<std::string> messages(const Loaded& loaded) {
  std::vector<std::string> all;
  for (const Problem& problem : loaded.problems) all.push_back(problem.text());
  return all;
}

inline std::vector<std::string> problems_of(const std::string& yaml,
                                            const std::vector<std::string>& overrides = {}) {
  return messages(load_text(yaml, "e.yaml", overrides));
}

// The experiment; fails the test where there are problems.
inline Experiment sound(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  Loaded loaded = load_text(yaml, "e.yaml", overrides);
  EXPECT_THAT(messages(loaded), ::testing::IsEmpty()) << yaml;
  return loaded.experiment;
}

}  // namespace trainer::config::testing

// The lengths of a run in steps. No torch here.
#pragma once

#include <cstdint>
#include <optional>

#include "config/experiment.h"
#include "data/sampler.h"

namespace trainer::engine {

// Where the run ends and how often something happens. A cadence in seconds counts training time.
struct Cadence {
  std::int64_t steps = 0;  // every so many steps; 0 where `seconds` counts, or never
  double seconds = 0;
  bool never() const { return steps == 0 && seconds == 0; }
};

struct Plan {
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;  // 0 where the length is a time
  double total_seconds = 0;      // 0 where it is not
  Cadence evaluate, checkpoint, log;
};

// Throws Error(config) where a length comes to no step at all.
// `tokens`: of a sample; 0 for images.
Plan make_plan(const config::Experiment& experiment, const data::Sampler& sampler,
               std::int64_t tokens = 0);

// `length` in steps, rounded up; nullopt for a time. An epoch is the sampler's steps; samples are
// divided by the global batch, tokens by its tokens.
std::optional<std::int64_t> steps_in(const config::Length& length, const data::Sampler& sampler,
                                     std::int64_t global, std::int64_t tokens = 0);

}  // namespace trainer::engine

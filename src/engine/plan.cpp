#include "engine/plan.h"

#include <cmath>
#include <string>

#include "core/error.h"

namespace trainer::engine {

std::optional<std::int64_t> steps_in(const config::Length& length, const data::Sampler& sampler,
                                     std::int64_t global, std::int64_t tokens) {
  using Unit = config::Length::Unit;
  const auto rounded_up = [](double steps) { return static_cast<std::int64_t>(std::ceil(steps)); };
  switch (length.unit) {
    case Unit::steps:
      return rounded_up(length.value);
    case Unit::epochs:
      return rounded_up(length.value * static_cast<double>(sampler.steps_per_epoch()));
    case Unit::samples:
      return rounded_up(length.value / static_cast<double>(global));
    case Unit::seconds:
      return std::nullopt;
    case Unit::tokens:
      if (tokens == 0) throw Error(Exit::config, "a length in tokens needs text data");
      return rounded_up(length.value / static_cast<double>(global * tokens));
  }
  return std::nullopt;
}

namespace {

Cadence cadence(const config::Maybe<config::Length>& length, const data::Sampler& sampler,
                std::int64_t global, std::int64_t tokens, const char* field) {
  if (!length) return {};
  const auto steps = steps_in(*length, sampler, global, tokens);
  if (!steps) return {0, length->value};
  if (*steps < 1)
    throw Error(Exit::config, std::string(field) + ": comes to no step; null switches it off");
  return {*steps, 0};
}

}  // namespace

Plan make_plan(const config::Experiment& experiment, const data::Sampler& sampler,
               std::int64_t tokens) {
  const std::int64_t global = experiment.batch.global.value();
  Plan plan;
  plan.steps_per_epoch = sampler.steps_per_epoch();
  if (const auto total = steps_in(experiment.train.length, sampler, global, tokens)) {
    if (*total < 1) throw Error(Exit::config, "train.length: comes to no step at all");
    plan.total_steps = *total;
  } else {
    plan.total_seconds = experiment.train.length.value;
  }
  plan.evaluate =
      cadence(experiment.train.evaluate_every, sampler, global, tokens, "train.evaluate_every");
  plan.checkpoint =
      cadence(experiment.checkpoint.every, sampler, global, tokens, "checkpoint.every");
  plan.log = cadence(experiment.log.every, sampler, global, tokens, "log.every");
  return plan;
}

}  // namespace trainer::engine

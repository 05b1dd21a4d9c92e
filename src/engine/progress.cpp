#include "engine/progress.h"

#include <cmath>

#include "core/error.h"

namespace trainer::engine {

bool BestMetric::improves(double candidate, config::Mode mode, double min_delta) {
  if (std::isnan(candidate)) return false;
  const bool better = !value || (mode == config::Mode::max ? candidate > *value + min_delta
                                                           : candidate < *value - min_delta);
  if (better) value = candidate;
  return better;
}

namespace {

nlohmann::json best_to_json(const BestMetric& best) {
  nlohmann::json json{{"step", best.step}};
  json["value"] = best.value ? nlohmann::json(*best.value) : nlohmann::json(nullptr);
  return json;
}

BestMetric best_from_json(const nlohmann::json& json) {
  BestMetric best;
  best.step = json.at("step").get<std::int64_t>();
  if (!json.at("value").is_null()) best.value = json.at("value").get<double>();
  return best;
}

}  // namespace

nlohmann::json Progress::to_json() const {
  return {{"step", step},
          {"evaluated_step", evaluated_step},
          {"seconds", seconds},
          {"evaluated_seconds", evaluated_seconds},
          {"saved_seconds", saved_seconds},
          {"skipped", skipped},
          {"skipped_in_row", skipped_in_row},
          {"stopped_early", stopped_early},
          {"evaluations_without_gain", evaluations_without_gain},
          {"early", best_to_json(early)},
          {"best", best_to_json(best)},
          {"last_metrics", last_metrics}};
}

Progress Progress::from_json(const nlohmann::json& json) try {
  Progress progress;
  json.at("step").get_to(progress.step);
  json.at("evaluated_step").get_to(progress.evaluated_step);
  json.at("seconds").get_to(progress.seconds);
  json.at("evaluated_seconds").get_to(progress.evaluated_seconds);
  json.at("saved_seconds").get_to(progress.saved_seconds);
  json.at("skipped").get_to(progress.skipped);
  json.at("skipped_in_row").get_to(progress.skipped_in_row);
  json.at("stopped_early").get_to(progress.stopped_early);
  json.at("evaluations_without_gain").get_to(progress.evaluations_without_gain);
  progress.early = best_from_json(json.at("early"));
  progress.best = best_from_json(json.at("best"));
  progress.last_metrics = json.at("last_metrics");
  return progress;
} catch (const nlohmann::json::exception& failure) {
  throw Error(Exit::storage, std::string("the checkpoint's state.json lacks the run's progress: ") +
                                 failure.what());
}

}  // namespace trainer::engine

// How far a run is, beside the parts' own state. No torch here.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "config/experiment.h"

namespace trainer::engine {

// A metric that is to get better.
class BestMetric {
 public:
  // Whether `value` improves on the best so far by more than `min_delta`; if so, it is the best.
  // NaN never does.
  bool improves(double value, config::Mode mode, double min_delta = 0);
  std::optional<double> value;
  std::int64_t step = 0;  // of the best
};

struct Progress {
  std::int64_t step = 0;            // steps done
  std::int64_t evaluated_step = 0;  // the last step after which the model was evaluated
  double seconds = 0;               // of training, evaluations and checkpoints included
  double evaluated_seconds = 0;     // `seconds` at the last evaluation
  double saved_seconds = 0;         // `seconds` at the last checkpoint
  std::int64_t skipped = 0;         // steps whose update was skipped
  std::int64_t skipped_in_row = 0;
  bool stopped_early = false;
  std::int64_t evaluations_without_gain = 0;
  BestMetric early, best;
  nlohmann::json last_metrics = nlohmann::json::object();  // of the last evaluation, by name

  nlohmann::json to_json() const;
  // Throws Error(storage) where a field is missing or of another type.
  static Progress from_json(const nlohmann::json& json);
};

}  // namespace trainer::engine

// Evaluation: each sample of the validation set once.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/experiment.h"
#include "data/feed.h"
#include "distributed/strategy.h"
#include "engine/bad_samples.h"
#include "engine/samples.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "precision/precision.h"

namespace trainer::engine {

// "val/loss" first, then the objective's metrics: means over the set. "val/perplexity" is the
// exponential of the loss, where the objective has it.
using Metrics = std::vector<std::pair<std::string, double>>;

struct EvaluatorParts {
  models::Model& model;
  const objectives::Objective& objective;
  distributed::Strategy& strategy;
  const Samples& samples;
  BadSamples& bad;
};

class Evaluator {
 public:
  // `batch` samples at once.
  Evaluator(const EvaluatorParts& parts, const config::Precision& precision, std::int64_t batch,
            const config::Loader& loader, const data::FeedOptions& feed, bool leave_jpeg);

  const data::Sampler& sampler() const { return sampler_; }

  // After step `step` of the run. Leaves the model in training mode. Reads the results from the
  // device once, at the end. Returns nullopt where `stop` became true before the end.
  std::optional<Metrics> run(std::int64_t step, const std::atomic<int>& stop);

 private:
  EvaluatorParts parts_;
  config::Precision precision_;
  at::Device device_;
  data::Sampler sampler_;
  config::Loader loader_;
  data::FeedOptions feed_options_;
  StreamOptions stream_;
};

}  // namespace trainer::engine

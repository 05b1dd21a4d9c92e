#include "engine/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "core/error.h"

namespace trainer::engine {
namespace {

// Evaluation mode while it lives, also where the evaluation fails.
class EvaluationMode {
 public:
  explicit EvaluationMode(models::Model& model) : model_(model) { model_.set_training(false); }
  ~EvaluationMode() { model_.set_training(true); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  models::Model& model_;
};

}  // namespace

Evaluator::Evaluator(const EvaluatorParts& parts, const config::Precision& precision,
                     std::int64_t batch, const config::Loader& loader,
                     const data::FeedOptions& feed, bool leave_jpeg)
    : parts_(parts),
      precision_(precision),
      device_(feed.device),
      sampler_(parts.samples.size(), batch, /*drop_last=*/false, /*shuffle=*/false, /*seed=*/0,
               parts.strategy.rank(), parts.strategy.ranks()),
      loader_(loader),
      feed_options_(feed),
      stream_{0, sampler_.steps_per_epoch(), /*evaluation=*/true, leave_jpeg} {}

std::optional<Metrics> Evaluator::run(std::int64_t at_step, const std::atomic<int>& stop) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(parts_.model);
  const auto feed = parts_.samples.stream(sampler_, loader_, feed_options_, stream_);
  const auto count = static_cast<std::int64_t>(parts_.objective.metric_names().size());
  // loss, weight, then the metrics: float64, so that a sum over millions of samples stays exact.
  at::Tensor sums = at::zeros({2 + count}, at::TensorOptions().dtype(at::kDouble).device(device_));
  bool complete = true;
  while (const data::StepBatch* step = feed->next()) {
    if (stop.load() != 0) {
      complete = false;
      break;
    }
    parts_.bad.take(at_step, step->bad());
    if (step->size() == 0) continue;
    const Batch batch = step->micro(0, step->size());
    const precision::Untuned untuned(step->size() < sampler_.largest_share());
    const precision::Scope autocast(precision_, device_);
    const objectives::Evaluation result =
        parts_.objective.evaluate(parts_.model.forward(batch), batch);
    sums.add_(
        at::cat({at::stack({result.losses.loss_sum, result.losses.weight_sum}).to(at::kDouble),
                 result.metric_sums}));
  }
  if (!complete) return std::nullopt;
  parts_.strategy.sum(sums);
  const at::Tensor host = sums.cpu();
  const double* values = host.const_data_ptr<double>();
  if (values[1] == 0.0)
    throw Error(Exit::data, "data.val: no sample could be used, or none has a weight above 0");
  Metrics metrics{{"val/loss", values[0] / values[1]}};
  for (std::int64_t i = 0; i < count; ++i) {
    metrics.emplace_back("val/" + parts_.objective.metric_names()[static_cast<std::size_t>(i)],
                         values[2 + i] / values[1]);
  }
  if (parts_.objective.has_perplexity())
    metrics.emplace_back("val/perplexity", std::exp(metrics.front().second));
  return metrics;
}

}  // namespace trainer::engine

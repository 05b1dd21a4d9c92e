#include "engine/evaluation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "core/error.h"

namespace trainer::engine {
namespace {

data::LoaderOptions once_through(data::LoaderOptions options, const data::Sampler& sampler) {
  options.first_step = 0;
  options.last_step = sampler.steps_per_epoch();
  options.may_be_empty = true;
  return options;
}

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
                     std::int64_t batch, data::LoaderOptions loader, const data::FeedOptions& feed)
    : parts_(parts),
      precision_(precision),
      device_(feed.device),
      sampler_(parts.source.size(), batch, /*drop_last=*/false, /*shuffle=*/false, /*seed=*/0,
               parts.strategy.rank(), parts.strategy.ranks()),
      loader_(parts.source, parts.pipeline, sampler_, once_through(std::move(loader), sampler_)),
      feed_options_(feed) {}

models::InputShape Evaluator::input_shape() const {
  return {loader_.channels(), loader_.height(), loader_.width()};
}

std::optional<Metrics> Evaluator::run(std::int64_t at_step, const std::atomic<int>& stop) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(parts_.model);
  loader_.seek(0);
  data::Feed feed(loader_, parts_.pipeline.normalisation(), /*erases=*/false, feed_options_);
  const auto count = static_cast<std::int64_t>(parts_.objective.metric_names().size());
  // loss, weight, then the metrics: float64, so that a sum over millions of samples stays exact.
  at::Tensor sums = at::zeros({2 + count}, at::TensorOptions().dtype(at::kDouble).device(device_));
  bool complete = true;
  while (const data::StepBatch* step = feed.next()) {
    if (stop.load() != 0) {
      complete = false;
      break;
    }
    parts_.bad.take(at_step, step->bad());
    if (step->size() == 0) continue;
    const Batch batch = step->micro(0, step->size());
    const precision::Untuned untuned(step->size() < sampler_.largest_share());
    const precision::Scope autocast(precision_, device_);
    const Output output = parts_.model.forward(batch.input);
    const objectives::Losses losses = parts_.objective.loss(output, batch);
    sums.add_(at::cat({at::stack({losses.loss_sum, losses.weight_sum}).to(at::kDouble),
                       parts_.objective.metric_sums(output, batch)}));
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
  return metrics;
}

}  // namespace trainer::engine

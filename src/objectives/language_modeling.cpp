#include "objectives/language_modeling.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/stack.h>

#include <string>

#include "core/error.h"
#include "kernels/cross_entropy.h"
#include "objectives/linear_cross_entropy.h"

namespace trainer::objectives {
namespace {

// int64 [tokens]
at::Tensor targets_of(const Batch& batch) {
  if (batch.target.scalar_type() != at::kLong || batch.target.dim() == 0)
    throw Error(Exit::config,
                "objective: language_modeling needs a target token for each token, and data.train "
                "gives other targets; choose a text source, or another objective");
  return batch.target.reshape({-1}).contiguous();
}

// float32 [tokens]: each token has its sample's. Undefined where the batch has none.
at::Tensor weights_of(const Batch& batch) {
  if (!batch.weight.defined()) return {};
  const std::int64_t samples = batch.weight.numel();
  const std::int64_t length = samples == 0 ? 0 : batch.target.numel() / samples;
  return batch.weight.reshape({samples, 1}).expand({samples, length}).reshape({-1});
}

at::Tensor weight_sum(const at::Tensor& targets, const at::Tensor& weights) {
  const at::Tensor counts = targets.ne(kIgnored).to(at::kFloat);
  return weights.defined() ? counts.mul(weights).sum() : counts.sum();
}

// [tokens, V]
at::Tensor rows_of(const at::Tensor& logits, const at::Tensor& targets) {
  at::Tensor rows = logits.reshape({-1, logits.size(-1)});
  if (rows.size(0) != targets.size(0))
    throw Error(Exit::config, "objective: language_modeling has " +
                                  std::to_string(targets.size(0)) + " target tokens for " +
                                  std::to_string(rows.size(0)) +
                                  " predictions; choose a language model as model.kind");
  return rows;
}

// Differentiable losses of whole logits, for a model that gives no hidden states.
at::Tensor losses_of(const at::Tensor& logits, const at::Tensor& targets,
                     const config::LanguageModeling& config) {
  const at::Tensor rows = rows_of(logits, targets).to(at::kFloat);
  const at::Tensor losses = at::cross_entropy_loss(
      rows, targets, /*weight=*/{}, at::Reduction::None, kIgnored, config.label_smoothing);
  if (config.z_loss == 0) return losses;
  const at::Tensor squares = at::logsumexp(rows, {1}).square();
  return losses.add(squares.masked_fill(targets.eq(kIgnored), 0), config.z_loss);
}

TokenResults results_of(const Output& output, const at::Tensor& targets) {
  if (!output.logits.defined()) return token_results(output.hidden, output.head, targets);
  const at::Tensor rows = rows_of(output.logits.detach(), targets).contiguous();
  const at::TensorOptions options = rows.options().dtype(at::kFloat);
  TokenResults results{.losses = at::empty({rows.size(0)}, options),
                       .hits = at::empty({rows.size(0)}, options)};
  kernels::CrossEntropy task;
  task.logits = rows;
  task.targets = targets;
  task.losses = results.losses;
  task.hits = results.hits;
  kernels::cross_entropy(task);
  return results;
}

}  // namespace

LanguageModeling::LanguageModeling(const config::LanguageModeling& config)
    : config_(config), metric_names_{"accuracy"} {}

Losses LanguageModeling::loss(const Output& output, const Batch& batch) const {
  const at::Tensor targets = targets_of(batch);
  const at::Tensor weights = weights_of(batch);
  Losses losses;
  losses.weight_sum = weight_sum(targets, weights);
  if (output.logits.defined()) {
    const at::Tensor each = losses_of(output.logits, targets, config_);
    losses.loss_sum = weights.defined() ? each.mul(weights).sum() : each.sum();
  } else {
    LinearCrossEntropy options;
    options.label_smoothing = config_.label_smoothing;
    options.z_loss = config_.z_loss;
    losses.loss_sum = linear_cross_entropy(output.hidden, output.head, targets, weights, options);
  }
  return losses;
}

Evaluation LanguageModeling::evaluate(const Output& output, const Batch& batch) const {
  const at::NoGradGuard no_grad;
  const at::Tensor targets = targets_of(batch);
  const at::Tensor weights = weights_of(batch);
  const TokenResults results = results_of(output, targets);
  at::Tensor both = at::stack({results.losses, results.hits});
  if (weights.defined()) both.mul_(weights);
  const at::Tensor sums = both.sum(1);
  return {.losses = {.loss_sum = sums[0], .weight_sum = weight_sum(targets, weights)},
          .metric_sums = sums.narrow(0, 1, 1).to(at::kDouble)};
}

at::Tensor LanguageModeling::metric_sums(const Output& output, const Batch& batch) const {
  return evaluate(output, batch).metric_sums;
}

}  // namespace trainer::objectives

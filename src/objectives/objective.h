// Losses and metrics over a model's output and a batch's targets, as sums: the trainer divides by
// the weight of the whole global batch, so a loss does not depend on how the batch is cut.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::objectives {

// 0-dim float32 tensors on the batch's device.
struct Losses {
  at::Tensor loss_sum;    // sum over samples of weight * loss, differentiable
  at::Tensor weight_sum;  // sum of the weights
};

// What an evaluation adds up.
struct Evaluation {
  Losses losses;           // not differentiable
  at::Tensor metric_sums;  // as Objective::metric_sums gives them
};

class Objective {
 public:
  virtual ~Objective() = default;
  // Computes in float32 whatever the logits' dtype. Under autocast where on.
  virtual Losses loss(const Output& output, const Batch& batch) const = 0;
  // Names of the metrics beside the loss: "accuracy", "accuracy_top5" (only with > 5 classes).
  virtual const std::vector<std::string>& metric_names() const = 0;
  // float64 [metric_names().size()]: weighted sums over the batch, in their order. Soft targets
  // count as the class of their largest share (the first where several are equal).
  virtual at::Tensor metric_sums(const Output& output, const Batch& batch) const = 0;
  // Loss and metrics together, for the price of one where an objective can share work between them.
  virtual Evaluation evaluate(const Output& output, const Batch& batch) const;
  // Whether exp(mean of the loss that `evaluate` gives) is a perplexity.
  virtual bool has_perplexity() const { return false; }
};

// `classes` is of no use to a language model's objective, which reads the vocabulary off the
// output.
std::unique_ptr<Objective> make_objective(const config::Objective& config, std::int64_t classes);

}  // namespace trainer::objectives

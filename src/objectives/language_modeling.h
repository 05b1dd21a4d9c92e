// The objective of language models: cross-entropy of the next token.
#pragma once

#include "objectives/objective.h"

namespace trainer::objectives {

// Of a batch whose targets are int64 [n, length] and an output of hidden states and head, or of
// logits [n, length, V] or [n * length, V]. Sums are over the tokens whose target is not kIgnored,
// each with its sample's weight (1 where the batch has none); so is the weight sum, and a mean over
// several micro-batches does not depend on how their tokens are spread.
// `loss` has label smoothing and z-loss; `evaluate` leaves both out, so that its mean is the plain
// negative log-likelihood in nats, of which the perplexity is the exponential.
class LanguageModeling final : public Objective {
 public:
  explicit LanguageModeling(const config::LanguageModeling& config);
  Losses loss(const Output& output, const Batch& batch) const override;
  const std::vector<std::string>& metric_names() const override { return metric_names_; }
  at::Tensor metric_sums(const Output& output, const Batch& batch) const override;
  Evaluation evaluate(const Output& output, const Batch& batch) const override;
  bool has_perplexity() const override { return true; }

 private:
  config::LanguageModeling config_;
  std::vector<std::string> metric_names_;
};

}  // namespace trainer::objectives

#include "objectives/objective.h"

#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/zeros_like.h>

#include <variant>

#include "objectives/language_modeling.h"

namespace trainer::objectives {
namespace {

constexpr std::int64_t kTop = 5;

bool has_class_targets(const at::Tensor& target) { return target.dim() == 1; }

at::Tensor class_indices(const at::Tensor& target) {
  return has_class_targets(target) ? target : at::argmax(target, 1);
}

// What every classification objective shares: the sums and the metrics. A kind gives the loss of
// each sample.
class Classification : public Objective {
 public:
  explicit Classification(std::int64_t classes) : metric_names_{"accuracy"} {
    if (classes > kTop) metric_names_.emplace_back("accuracy_top5");
  }

  Losses loss(const Output& output, const Batch& batch) const final {
    const at::Tensor losses = sample_losses(output.logits.to(at::kFloat), batch.target);
    return {.loss_sum = losses.mul(batch.weight).sum(), .weight_sum = batch.weight.sum()};
  }

  const std::vector<std::string>& metric_names() const final { return metric_names_; }

  at::Tensor metric_sums(const Output& output, const Batch& batch) const final {
    const at::NoGradGuard no_grad;
    const at::Tensor target = class_indices(batch.target);
    std::vector<at::Tensor> hits{at::argmax(output.logits, 1).eq(target)};
    if (metric_names_.size() > 1) {
      const at::Tensor top = std::get<1>(at::topk(output.logits, kTop, 1));
      hits.push_back(top.eq(target.unsqueeze(1)).any(1));
    }
    return at::stack(hits).to(at::kDouble).mul(batch.weight).sum(1);
  }

 protected:
  // logits: float32 [n, classes]; target: int64 [n] or float32 [n, classes] -> float32 [n].
  virtual at::Tensor sample_losses(const at::Tensor& logits, const at::Tensor& target) const = 0;

 private:
  std::vector<std::string> metric_names_;
};

class CrossEntropy final : public Classification {
 public:
  CrossEntropy(const config::CrossEntropy& config, std::int64_t classes)
      : Classification(classes), label_smoothing_(config.label_smoothing) {}

 private:
  at::Tensor sample_losses(const at::Tensor& logits, const at::Tensor& target) const override {
    constexpr std::int64_t kIgnoreNone = -100;
    return at::cross_entropy_loss(logits, target, /*weight=*/{}, at::Reduction::None, kIgnoreNone,
                                  label_smoothing_);
  }

  double label_smoothing_;
};

class Mse final : public Classification {
 public:
  using Classification::Classification;

 private:
  at::Tensor sample_losses(const at::Tensor& logits, const at::Tensor& target) const override {
    at::Tensor wanted = target;
    if (has_class_targets(target)) {
      wanted = at::zeros_like(logits).scatter_(1, target.unsqueeze(1), 1.0);
    }
    return at::mse_loss(logits, wanted, at::Reduction::None).mean(1);
  }
};

}  // namespace

Evaluation Objective::evaluate(const Output& output, const Batch& batch) const {
  const at::NoGradGuard no_grad;
  return {.losses = loss(output, batch), .metric_sums = metric_sums(output, batch)};
}

std::unique_ptr<Objective> make_objective(const config::Objective& config, std::int64_t classes) {
  if (const auto* cross_entropy = std::get_if<config::CrossEntropy>(&config)) {
    return std::make_unique<CrossEntropy>(*cross_entropy, classes);
  }
  if (const auto* language = std::get_if<config::LanguageModeling>(&config)) {
    return std::make_unique<LanguageModeling>(*language);
  }
  return std::make_unique<Mse>(classes);
}

}  // namespace trainer::objectives

// A trainer over a small model and batches by formula, for the tests of the step.
#pragma once

#include <memory>
#include <string>

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "engine/step_results.h"
#include "engine/trainer.h"
#include "support/formula.h"

namespace trainer::engine {

// A step's samples that are on the device already.
class FixedBatch : public data::StepBatch {
 public:
  // With `weight`, float32 [n], of the samples; else all count 1.
  FixedBatch(std::int64_t step, at::Tensor input, at::Tensor target, at::Tensor weight = {})
      : step_(step),
        input_(std::move(input)),
        target_(std::move(target)),
        weight_(std::move(weight)) {
    place_.global = place_.share = {0, input_.size(0)};
    if (!weight_.defined())
      weight_ = at::ones({input_.size(0)}, input_.options().dtype(at::kFloat));
  }
  std::int64_t step() const override { return step_; }
  const data::StepPlace& place() const override { return place_; }
  std::int64_t size() const override { return input_.size(0); }
  double weight() const override { return weight_.sum().item<double>(); }
  const std::vector<data::BadSample>& bad() const override { return bad_; }
  Batch micro(std::int64_t begin, std::int64_t end) const override {
    return {input_.slice(0, begin, end),
            target_.slice(0, begin, end),
            weight_.slice(0, begin, end),
            begin,
            {},
            {}};
  }

 private:
  std::int64_t step_;
  at::Tensor input_, target_, weight_;
  std::vector<data::BadSample> bad_;
  data::StepPlace place_;
};

struct RigOptions {
  config::Model model = config::Mlp{};
  std::vector<std::int64_t> input{64, 1, 8, 8};
  std::int64_t classes = 10;
  config::Optim optim = config::Sgd{};
  config::Schedule schedule = config::Constant{};
  config::Precision precision;
  config::OnNonfinite on_nonfinite = config::OnNonfinite::stop;
  std::optional<double> clip_norm;
  std::optional<double> ema;
  at::Device device = at::kCPU;
};

struct Rig {
  explicit Rig(const RigOptions& rig) : options(rig) {
    model =
        models::make_model(rig.model, {rig.input[1], rig.input[2], rig.input[3]}, rig.classes, 1);
    formula::fill_state(model->state());
    model->to(rig.device, at::MemoryFormat::Contiguous);
    model->set_training(true);
    objective = objectives::make_objective(config::CrossEntropy{}, rig.classes);
    optimizer = optim::make_optimizer(rig.optim, model->parameters());
    if (rig.ema) ema = std::make_unique<optim::Ema>(*rig.ema, model->parameters());
    scaler = std::make_unique<precision::Scaler>(rig.precision, rig.device);
    const double lr = std::visit([](const auto& one) { return one.lr; }, rig.optim);
    schedule = std::make_unique<optim::Schedule>(rig.schedule, lr, optim::Horizon{100, 10, 64, 0});
    trainer = std::make_unique<Trainer>(
        TrainerParts{*model, *objective, *optimizer, ema.get(), *scaler, *strategy, *schedule},
        TrainerOptions{rig.device, rig.precision, rig.on_nonfinite, rig.clip_norm, 7});
  }

  FixedBatch batch(std::int64_t step) const {
    return {step, formula::model_input(options.input, step).to(options.device),
            formula::targets(options.input[0], options.classes, step).to(options.device)};
  }
  // Input that makes the loss NaN.
  FixedBatch bad_batch(std::int64_t step) const {
    return {step, formula::model_input(options.input, step).fill_(std::nan("")).to(options.device),
            formula::targets(options.input[0], options.classes, step).to(options.device)};
  }
  StepValues step(const data::StepBatch& samples, std::int64_t micro = 64) {
    const at::Tensor row = trainer->step(samples, micro).cpu();
    const float* v = row.const_data_ptr<float>();
    return {v[0], v[1], v[2], v[3], v[4], v[5]};
  }
  // Copies of everything that a step may change.
  std::vector<at::Tensor> snapshot() const {
    std::vector<at::Tensor> copies;
    const auto add = [&](const State& state) {
      for (const NamedTensor& tensor : state.tensors)
        copies.push_back(tensor.value.detach().clone());
    };
    add(model->state());
    add(optimizer->state());
    add(trainer->state());
    if (ema) add(ema->state());
    return copies;
  }

  RigOptions options;
  std::unique_ptr<models::Model> model;
  std::unique_ptr<objectives::Objective> objective;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  std::unique_ptr<precision::Scaler> scaler;
  std::unique_ptr<distributed::Strategy> strategy = distributed::single_process();
  std::unique_ptr<optim::Schedule> schedule;
  std::unique_ptr<Trainer> trainer;
};

inline bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!at::equal(a[i], b[i])) return false;
  return true;
}

}  // namespace trainer::engine

#include "engine/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rig.h"
#include "support/golden.h"

namespace trainer::engine {
namespace {

RigOptions small_resnet() {
  RigOptions options;
  config::ResNet resnet;
  resnet.stem = config::Stem::cifar;
  options.model = resnet;
  options.input = {4, 3, 8, 8};
  config::Sgd sgd;
  sgd.lr = 0.01;
  sgd.momentum = 0.9;
  options.optim = sgd;
  options.ema = 0.9;
  return options;
}

RigOptions small_mlp() {
  RigOptions options;
  config::Adam adam;
  adam.decoupled = true;
  adam.lr = 1e-3;
  options.optim = adam;
  return options;
}

config::Optim optimizer_of(const nlohmann::json& json) {
  if (json.at("kind") == "sgd") {
    config::Sgd sgd;
    sgd.momentum = json.value("momentum", 0.0);
    sgd.nesterov = json.value("nesterov", false);
    sgd.lr = json.at("lr");
    sgd.weight_decay = json.value("weight_decay", 0.0);
    return sgd;
  }
  config::Adam adam;
  adam.decoupled = json.at("kind") == "adamw";
  adam.betas = json.at("betas").get<std::vector<double>>();
  adam.eps = json.at("eps");
  adam.lr = json.at("lr");
  adam.weight_decay = json.value("weight_decay", 0.0);
  return adam;
}

TEST(Trainer, TenStepsAgreeWithPyTorch) {
  const nlohmann::json file = golden::read("engine/steps.json");
  ASSERT_FALSE(file.at("cases").empty());
  for (const auto& one : file.at("cases")) {
    SCOPED_TRACE(one.at("model").dump() + one.at("optimizer").dump());
    RigOptions options;
    options.model = golden::model(one.at("model"));
    options.input = one.at("input").get<std::vector<std::int64_t>>();
    options.classes = one.at("classes");
    options.optim = optimizer_of(one.at("optimizer"));
    Rig rig(options);
    const double loss_tolerance = one.at("loss_tolerance");
    const double parameter_tolerance = one.at("parameter_tolerance");
    for (std::int64_t step = 0; step < 10; ++step) {
      const double expected = one.at("losses").at(static_cast<std::size_t>(step));
      const StepValues values = rig.step(rig.batch(step), options.input[0]);
      EXPECT_NEAR(static_cast<double>(values.loss), expected,
                  loss_tolerance * (1 + std::abs(expected)))
          << "step " << step;
    }
    for (const NamedTensor& parameter : rig.model->parameters()) {
      const at::Tensor flat = parameter.value.detach().contiguous().flatten();
      const std::int64_t size = flat.numel();
      const std::int64_t positions[] = {0, size / 3, size / 2, size - 1};
      for (std::size_t i = 0; i < 4; ++i) {
        const double expected = one.at("parameters").at(parameter.name).at(i);
        EXPECT_NEAR(flat[positions[i]].item<double>(), expected,
                    parameter_tolerance * (1 + std::abs(expected)))
            << parameter.name << " at " << positions[i];
      }
    }
  }
}

// The same global batch of 64 cut as 64x1, 16x4, 8x8 and 24 with a tail of 16: equal losses up to
// rounding (1e-5 relative in float32: sums of 64 terms in another order, over 50 updates).
TEST(Trainer, LossDoesNotDependOnTheCut) {
  std::vector<double> whole;
  for (const std::int64_t micro : {64, 16, 8, 24}) {
    RigOptions options = small_mlp();
    options.clip_norm = 1.0;
    Rig rig(options);
    for (std::int64_t step = 0; step < 50; ++step) {
      const auto loss = static_cast<double>(rig.step(rig.batch(step), micro).loss);
      if (micro == 64)
        whole.push_back(loss);
      else
        EXPECT_NEAR(loss, whole[static_cast<std::size_t>(step)],
                    1e-5 * whole[static_cast<std::size_t>(step)])
            << "micro " << micro << ", step " << step;
    }
  }
}

// The mean is over weights: a sample of weight 2 counts as two, one of weight 0 not at all.
TEST(Trainer, WeightsAreRepetitions) {
  RigOptions options = small_mlp();
  Rig weighted(options);
  Rig repeated(options);
  for (std::int64_t step = 0; step < 5; ++step) {
    const Batch all = weighted.batch(step).micro(0, 8);
    const at::Tensor weight = at::tensor({1, 0, 2, 1, 0, 3, 1, 1}, at::kFloat);
    const at::Tensor rows = at::tensor({0, 2, 2, 3, 5, 5, 5, 6, 7}, at::kLong);
    const auto loss =
        static_cast<double>(weighted.step(FixedBatch(step, all.input, all.target, weight), 3).loss);
    const auto wanted =
        static_cast<double>(repeated
                                .step(FixedBatch(step, all.input.index_select(0, rows),
                                                 all.target.index_select(0, rows)),
                                      9)
                                .loss);
    EXPECT_NEAR(loss, wanted, 1e-5 * wanted) << step;
  }
}

TEST(Trainer, AbandonedStepLeavesNoTraceAndIsDoneAgainTheSame) {
  Rig rig(small_resnet());
  Rig reference(small_resnet());
  rig.step(rig.batch(0), 4);
  reference.step(reference.batch(0), 4);
  const auto before = rig.snapshot();

  const FixedBatch batch = rig.batch(1);
  rig.trainer->begin_step(1);
  rig.trainer->accumulate(batch.micro(0, 2), 4, false);
  EXPECT_FALSE(equal(rig.snapshot(), before)) << "batch norm's statistics moved";
  rig.trainer->abandon();
  EXPECT_TRUE(equal(rig.snapshot(), before));

  const StepValues again = rig.step(batch, 4);
  const StepValues once = reference.step(reference.batch(1), 4);
  EXPECT_EQ(again.loss, once.loss);
  EXPECT_TRUE(equal(rig.snapshot(), reference.snapshot()));
}

TEST(Trainer, NotFiniteStopsBeforeTheUpdateAndStaysStopped) {
  Rig rig(small_resnet());
  rig.step(rig.batch(0), 4);
  const auto before = rig.snapshot();
  const StepValues bad = rig.step(rig.bad_batch(1), 4);
  EXPECT_TRUE(std::isnan(bad.loss));
  EXPECT_EQ(bad.halted, 1);
  EXPECT_EQ(bad.skipped, 1);
  EXPECT_TRUE(equal(rig.snapshot(), before));
  // The host learns of it some steps later: those leave no trace either.
  const StepValues after = rig.step(rig.batch(2), 4);
  EXPECT_TRUE(std::isfinite(after.loss));
  EXPECT_EQ(after.halted, 1);
  EXPECT_TRUE(equal(rig.snapshot(), before));

  rig.trainer->clear_halt();
  EXPECT_EQ(rig.step(rig.batch(2), 4).halted, 0);
  EXPECT_FALSE(equal(rig.snapshot(), before));
}

TEST(Trainer, NotFiniteIsSkippedWithoutTraceAndTrainingGoesOn) {
  RigOptions options = small_resnet();
  options.on_nonfinite = config::OnNonfinite::skip;
  Rig rig(options);
  Rig reference(options);
  rig.step(rig.batch(0), 4);
  reference.step(reference.batch(0), 4);
  const auto before = rig.snapshot();
  const StepValues bad = rig.step(rig.bad_batch(1), 4);
  EXPECT_EQ(bad.skipped, 1);
  EXPECT_EQ(bad.halted, 0);
  EXPECT_TRUE(equal(rig.snapshot(), before));
  // As if the bad step had not been.
  rig.step(rig.batch(2), 4);
  reference.step(reference.batch(2), 4);
  EXPECT_TRUE(equal(rig.snapshot(), reference.snapshot()));
}

TEST(Trainer, ScheduleWaitsForSkippedUpdates) {
  RigOptions options = small_mlp();
  options.on_nonfinite = config::OnNonfinite::skip;
  config::Linear linear;
  options.schedule = linear;
  Rig rig(options);
  EXPECT_FLOAT_EQ(rig.step(rig.batch(0)).lr, static_cast<float>(rig.schedule->at(0)));
  EXPECT_FLOAT_EQ(rig.step(rig.bad_batch(1)).lr, static_cast<float>(rig.schedule->at(1)));
  EXPECT_FLOAT_EQ(rig.step(rig.batch(2)).lr, static_cast<float>(rig.schedule->at(1)));
  EXPECT_FLOAT_EQ(rig.step(rig.batch(3)).lr, static_cast<float>(rig.schedule->at(2)));
  EXPECT_NE(rig.schedule->at(1), rig.schedule->at(2));
}

TEST(Trainer, ClipsTheWholeGradientOnce) {
  RigOptions options;
  config::Sgd sgd;
  sgd.lr = 1.0;
  options.optim = sgd;
  options.clip_norm = 0.01;
  Rig rig(options);
  const auto before = rig.snapshot();
  const StepValues values = rig.step(rig.batch(0), 16);
  ASSERT_GT(values.grad_norm, 0.1F) << "the test needs a gradient that is clipped";
  const auto after = rig.snapshot();
  double moved = 0;
  for (std::size_t i = 0; i < rig.model->parameters().size(); ++i)
    moved += after[i].sub(before[i]).to(at::kDouble).pow(2).sum().item<double>();
  // With plain SGD at lr 1 the weights move by the clipped gradient. 1e-4: differences of float32
  // weights near 1 lose about four of their seven digits.
  EXPECT_NEAR(std::sqrt(moved), 0.01, 0.01 * 1e-3);
}

TEST(Trainer, RandomLayersDrawFromSeedAndStepAlone) {
  RigOptions options = small_mlp();
  config::Mlp mlp;
  mlp.dropout = 0.5;
  options.model = mlp;
  Rig rig(options);
  Rig other(options);
  rig.step(rig.batch(0));
  other.step(other.batch(0));
  at::manual_seed(999);  // whatever was drawn elsewhere in between
  rig.step(rig.batch(1));
  other.step(other.batch(1));
  EXPECT_TRUE(equal(rig.snapshot(), other.snapshot()));
}

TEST(GpuTrainer, Fp16OverflowSkipsOptimiserScheduleAndEma) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device: fp16 trains on CUDA only";
  RigOptions options = small_resnet();
  options.device = at::kCUDA;
  options.precision.mode = config::PrecisionMode::fp16;
  options.precision.initial_scale = 1e30;  // the first backward overflows
  options.schedule = config::Linear{};
  Rig rig(options);
  const auto before = rig.snapshot();
  const StepValues first = rig.step(rig.batch(0), 4);
  EXPECT_TRUE(std::isfinite(first.loss));
  EXPECT_EQ(first.skipped, 1);
  EXPECT_EQ(first.halted, 0) << "an overflow of scaled gradients is no reason to stop";
  EXPECT_TRUE(equal(rig.snapshot(), before));
  EXPECT_FLOAT_EQ(rig.scaler->scale().item<float>(), 0.5e30F);
  StepValues later = first;
  for (std::int64_t step = 1; step < 120 && later.skipped != 0; ++step)
    later = rig.step(rig.batch(step), 4);
  EXPECT_EQ(later.skipped, 0) << "the scale comes down until gradients fit";
  EXPECT_FLOAT_EQ(later.lr, static_cast<float>(rig.schedule->at(0)));
  EXPECT_FALSE(equal(rig.snapshot(), before));
}

}  // namespace
}  // namespace trainer::engine

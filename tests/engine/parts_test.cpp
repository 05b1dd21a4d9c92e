#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "engine/bundle.h"
#include "engine/plan.h"
#include "engine/progress.h"
#include "engine/step_results.h"

namespace trainer::engine {
namespace {

using config::Length;
using Unit = config::Length::Unit;

TEST(Plan, LengthsBecomeStepsRoundedUp) {
  const data::Sampler sampler(1000, 64, false, true, 1);  // 16 steps, the last of 40 samples
  EXPECT_EQ(steps_in({500, Unit::steps}, sampler, 64), 500);
  EXPECT_EQ(steps_in({2, Unit::epochs}, sampler, 64), 32);
  EXPECT_EQ(steps_in({0.5, Unit::epochs}, sampler, 64), 8);
  EXPECT_EQ(steps_in({65, Unit::samples}, sampler, 64), 2);
  EXPECT_EQ(steps_in({30, Unit::seconds}, sampler, 64), std::nullopt);
}

TEST(Plan, NoStepAtAllIsAnError) {
  const data::Sampler sampler(1000, 64, false, true, 1);
  config::Experiment experiment;
  experiment.batch.global = 64;
  experiment.train.length = {0, Unit::steps};
  try {
    make_plan(experiment, sampler);
    FAIL() << "a run of no step must be refused";
  } catch (const Error& failure) {
    EXPECT_EQ(failure.code(), Exit::config);
    EXPECT_THAT(failure.what(), testing::HasSubstr("train.length"));
  }
}

TEST(Progress, SurvivesJson) {
  Progress progress;
  progress.step = 123;
  progress.evaluated_step = 100;
  progress.seconds = 1.0 / 3.0;
  progress.skipped = 2;
  progress.stopped_early = true;
  progress.early.improves(0.25, config::Mode::min);
  progress.early.step = 90;
  progress.last_metrics = {{"val/loss", 0.1}};
  const Progress back = Progress::from_json(nlohmann::json::parse(progress.to_json().dump()));
  EXPECT_EQ(back.to_json(), progress.to_json());
  EXPECT_EQ(back.seconds, 1.0 / 3.0);
  EXPECT_EQ(back.early.value, 0.25);
  EXPECT_EQ(back.best.value, std::nullopt);
}

TEST(Progress, AMissingFieldIsAStorageError) {
  nlohmann::json json = Progress{}.to_json();
  json.erase("skipped");
  EXPECT_THROW(Progress::from_json(json), Error);
}

TEST(BestMetric, ImprovesByMoreThanTheDelta) {
  BestMetric best;
  EXPECT_FALSE(best.improves(std::nan(""), config::Mode::max));
  EXPECT_TRUE(best.improves(0.5, config::Mode::max));
  EXPECT_FALSE(best.improves(0.5, config::Mode::max));
  EXPECT_FALSE(best.improves(0.55, config::Mode::max, 0.1));
  EXPECT_TRUE(best.improves(0.61, config::Mode::max, 0.1));
  BestMetric least;
  EXPECT_TRUE(least.improves(2, config::Mode::min));
  EXPECT_FALSE(least.improves(3, config::Mode::min));
  EXPECT_TRUE(least.improves(1, config::Mode::min));
}

class OneTensor : public Stateful {
 public:
  explicit OneTensor(float value) : value_(at::full({2}, value)) {}
  State state() const override {
    State state;
    state.tensors.push_back({"x", value_});
    return state;
  }
  void load(const State& state) override { value_.copy_(state.tensors.at(0).value); }
  float value() const { return value_[0].item<float>(); }

 private:
  at::Tensor value_;
};

TEST(Bundle, PartsKeepTheirOwnTensors) {
  OneTensor a(1), b(2);
  const Bundle bundle({{"", &a}, {"b.", &b}});
  const State state = bundle.state();
  ASSERT_EQ(state.tensors.size(), 2U);
  EXPECT_EQ(state.tensors[0].name, "x");
  EXPECT_EQ(state.tensors[1].name, "b.x");
  OneTensor c(0), d(0);
  Bundle other({{"", &c}, {"b.", &d}});
  other.load(state);
  EXPECT_EQ(c.value(), 1);
  EXPECT_EQ(d.value(), 2);
}

TEST(StepResults, ComeBackInOrderWithTheirValues) {
  StepResults results(at::kCPU, 2);
  EXPECT_FALSE(results.pop(true).has_value());
  for (std::int64_t step = 1; step <= 7; ++step) {
    while (results.full()) EXPECT_TRUE(results.pop(true).has_value());
    const auto x = static_cast<float>(step);
    results.push(step, at::tensor({x, x + 1, x + 2, x + 3, 0.0F, 1.0F}));
    if (step % 2 == 0) continue;
    const auto finished = results.pop(false);
    ASSERT_TRUE(finished.has_value());
    const auto expected = static_cast<float>(finished->step);
    EXPECT_EQ(finished->values.loss, expected);
    EXPECT_EQ(finished->values.loss_scale, expected + 3);
    EXPECT_EQ(finished->values.halted, 1);
    EXPECT_GE(finished->milliseconds, 0);
  }
}

}  // namespace
}  // namespace trainer::engine

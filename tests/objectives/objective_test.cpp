// The objectives against torch.nn.functional: tests/oracle/objectives.py describes the golden file.
#include "objectives/objective.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "support/formula.h"
#include "support/golden.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::objectives {
namespace {

using nlohmann::json;
using testing::ElementsAre;

Output output_of(const at::Tensor& logits) {
  Output output;
  output.logits = logits;
  return output;
}

Batch batch_of(const at::Tensor& target, const at::Tensor& weight) {
  Batch batch;
  batch.target = target;
  batch.weight = weight;
  return batch;
}

struct Case {
  std::unique_ptr<Objective> objective;
  at::Tensor logits;
  Batch batch;
};

Case make_case(const json& golden, at::Device device = at::kCPU) {
  const auto samples = golden.at("samples").get<std::int64_t>();
  const auto classes = golden.at("classes").get<std::int64_t>();
  config::Objective config = config::Mse{};
  if (golden.at("kind") == "cross_entropy") {
    config = config::CrossEntropy{golden.at("label_smoothing").get<double>()};
  }
  Case made{.objective = make_objective(config, classes),
            .logits = formula::tensor({samples, classes}, 1, 4.0).to(device),
            .batch = {}};
  made.logits.requires_grad_(true);
  at::Tensor weight = formula::tensor({samples}, 2, 0.5, 1.0);
  weight[1] = 0;
  made.batch.weight = weight.to(device);
  const at::Tensor soft = at::softmax(formula::tensor({samples, classes}, 3, 2.0), 1);
  const bool hard = golden.at("targets") == "classes";
  made.batch.target = (hard ? formula::targets(samples, classes) : soft).to(device);
  return made;
}

void expect_golden(const json& golden, at::Device device) {
  SCOPED_TRACE(golden.at("kind").dump() + golden.at("targets").dump() +
               golden.at("label_smoothing").dump() + golden.at("classes").dump());
  const Case own = make_case(golden, device);
  const Losses losses = own.objective->loss(output_of(own.logits), own.batch);
  ASSERT_EQ(losses.loss_sum.dim(), 0);
  EXPECT_EQ(losses.loss_sum.scalar_type(), at::kFloat);
  const double wanted = golden.at("loss_sum").get<double>();
  EXPECT_NEAR(losses.loss_sum.item<double>(), wanted, 1e-5 * wanted);
  EXPECT_FLOAT_EQ(losses.weight_sum.item<float>(), own.batch.weight.sum().item<float>());

  losses.loss_sum.backward();
  const at::Tensor gradient = own.logits.grad().cpu();
  const auto rows = golden.at("gradient").get<std::vector<std::vector<float>>>();
  const at::Tensor flat = gradient.reshape({-1});
  const float* values = flat.const_data_ptr<float>();
  for (const auto& row : rows) {
    for (const float value : row) EXPECT_NEAR(*values++, value, 1e-5);
  }

  const at::Tensor metrics = own.objective->metric_sums(output_of(own.logits), own.batch).cpu();
  EXPECT_EQ(metrics.scalar_type(), at::kDouble);
  const auto wanted_metrics = golden.at("metrics").get<std::vector<double>>();
  ASSERT_EQ(metrics.numel(), std::ssize(wanted_metrics));
  ASSERT_EQ(own.objective->metric_names().size(), wanted_metrics.size());
  for (std::size_t i = 0; i < wanted_metrics.size(); ++i) {
    EXPECT_NEAR(metrics.const_data_ptr<double>()[i], wanted_metrics[i], 1e-12);
  }
  const Evaluation both = own.objective->evaluate(output_of(own.logits), own.batch);
  EXPECT_TRUE(at::equal(both.losses.loss_sum, losses.loss_sum.detach()));
  EXPECT_TRUE(at::equal(both.losses.weight_sum, losses.weight_sum));
  EXPECT_TRUE(at::equal(both.metric_sums.cpu(), metrics));
  EXPECT_FALSE(both.losses.loss_sum.requires_grad());
}

TEST(Objective, AgreesWithTorch) {
  const json golden = golden::read("objectives/losses.json");
  ASSERT_EQ(golden.size(), 12U);
  for (const json& one : golden) expect_golden(one, at::kCPU);
}

TEST(Objective, NamesItsMetrics) {
  EXPECT_THAT(make_objective(config::CrossEntropy{}, 5)->metric_names(), ElementsAre("accuracy"));
  EXPECT_THAT(make_objective(config::Mse{}, 6)->metric_names(),
              ElementsAre("accuracy", "accuracy_top5"));
}

// The trainer adds the sums of micro-batches.
TEST(Objective, SumsDoNotDependOnHowABatchIsCut) {
  for (const json& golden : golden::read("objectives/losses.json")) {
    const Case whole = make_case(golden);
    double loss = 0;
    double weight = 0;
    at::Tensor metrics = at::zeros({std::ssize(whole.objective->metric_names())}, at::kDouble);
    for (const auto& [start, length] : {std::pair{0, 5}, std::pair{5, 7}}) {
      const Batch part = batch_of(whole.batch.target.narrow(0, start, length),
                                  whole.batch.weight.narrow(0, start, length));
      const Output output = output_of(whole.logits.narrow(0, start, length));
      const Losses losses = whole.objective->loss(output, part);
      loss += losses.loss_sum.item<double>();
      weight += losses.weight_sum.item<double>();
      metrics += whole.objective->metric_sums(output, part);
    }
    const Losses losses = whole.objective->loss(output_of(whole.logits), whole.batch);
    EXPECT_NEAR(loss, losses.loss_sum.item<double>(), 1e-5 * loss);
    EXPECT_NEAR(weight, losses.weight_sum.item<double>(), 1e-5);
    const at::Tensor difference =
        metrics.sub(whole.objective->metric_sums(output_of(whole.logits), whole.batch));
    EXPECT_LT(difference.abs().max().item<double>(), 1e-12);
  }
}

TEST(Objective, ComputesInFloat32) {
  const json golden = golden::read("objectives/losses.json")[0];
  const Case own = make_case(golden);
  const at::Tensor half = own.logits.detach().to(at::kBFloat16);
  const at::Tensor loss = own.objective->loss(output_of(half), own.batch).loss_sum;
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_TRUE(
      at::equal(loss, own.objective->loss(output_of(half.to(at::kFloat)), own.batch).loss_sum));
}

TEST(Objective, CountsNoNotANumberAsRight) {
  const auto objective = make_objective(config::CrossEntropy{}, 10);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Batch batch = batch_of(at::full({4}, 7, at::kLong), at::ones({4}));
  const at::Tensor metrics =
      objective->metric_sums(output_of(at::full({4, 10}, nan, at::kFloat)), batch);
  EXPECT_EQ(metrics[0].item<double>(), 0.0);
}

#ifdef TRAINER_CUDA
TEST(GpuObjective, AgreesWithTorch) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  for (const json& one : golden::read("objectives/losses.json")) expect_golden(one, at::kCUDA);
}

TEST(GpuObjective, NeverWaitsForTheGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  for (const json& one : golden::read("objectives/losses.json")) {
    const Case own = make_case(one, at::kCUDA);
    const auto use = [&own] {
      own.objective->loss(output_of(own.logits), own.batch).loss_sum.backward();
      own.objective->metric_sums(output_of(own.logits), own.batch);
    };
    use();  // libraries may wait while they initialise
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
    EXPECT_NO_THROW(use()) << one.at("kind") << one.at("targets");
    c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
  }
}
#endif

}  // namespace
}  // namespace trainer::objectives

// The objective of language models against torch.nn.functional: tests/oracle/objectives.py
// describes the golden file.
#include "objectives/language_modeling.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "support/formula.h"
#include "support/golden.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::objectives {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
  std::unique_ptr<Objective> objective;
  Output output;
  Batch batch;
};

Case make_case(const json& golden, at::Device device = at::kCPU) {
  const auto samples = golden.at("samples").get<std::int64_t>();
  const auto length = golden.at("length").get<std::int64_t>();
  const auto width = golden.at("width").get<std::int64_t>();
  const auto vocabulary = golden.at("vocabulary").get<std::int64_t>();
  const auto ignored = golden.at("ignored").get<std::string>();
  config::LanguageModeling config;
  config.label_smoothing = golden.at("label_smoothing").get<double>();
  config.z_loss = golden.at("z_loss").get<double>();
  Case made;
  made.objective = make_objective(config, 0);
  made.output.hidden = formula::tensor({samples, length, width}, 11, 2.0).to(device);
  made.output.head = formula::tensor({vocabulary, width}, 12, 1.5).to(device);
  made.output.hidden.requires_grad_(true);
  made.output.head.requires_grad_(true);
  at::Tensor target = formula::targets(samples * length, vocabulary);
  for (std::int64_t i = 0; i < target.numel(); ++i) {
    const bool some = i % 8 == 1 || i % 8 == 4 || i % 8 == 5;
    if (ignored == "all" || (ignored == "some" && some)) target[i] = kIgnored;
  }
  made.batch.target = target.view({samples, length}).to(device);
  made.batch.weight = formula::tensor({samples}, 13, 0.5, 1.0).to(device);
  return made;
}

at::Tensor doubles(const json& values) {
  auto numbers = values.get<std::vector<double>>();
  return at::from_blob(numbers.data(), {std::ssize(numbers)}, at::kDouble).clone();
}

void expect_values(const at::Tensor& got, const json& wanted) {
  const at::Tensor difference =
      got.detach().cpu().to(at::kDouble).reshape({-1}).sub(doubles(wanted));
  EXPECT_LT(difference.abs().max().item<double>(), 2e-6);
}

void expect_sum(const at::Tensor& got, const json& wanted) {
  ASSERT_EQ(got.dim(), 0);
  EXPECT_EQ(got.scalar_type(), at::kFloat);
  EXPECT_NEAR(got.item<double>(), wanted.get<double>(), 1e-5 * (wanted.get<double>() + 0.1));
}

// The same output as logits instead of what they are made of.
Output with_logits(const Output& output) {
  Output whole;
  whole.logits = at::linear(output.hidden, output.head);
  return whole;
}

void expect_golden(const json& golden, at::Device device) {
  SCOPED_TRACE(golden.at("vocabulary").dump() + golden.at("label_smoothing").dump() +
               golden.at("z_loss").dump() + golden.at("ignored").dump());
  for (const bool whole_logits : {false, true}) {
    SCOPED_TRACE(whole_logits ? "logits" : "hidden states");
    const Case own = make_case(golden, device);
    const Output output = whole_logits ? with_logits(own.output) : own.output;
    const Losses losses = own.objective->loss(output, own.batch);
    expect_sum(losses.loss_sum, golden.at("loss_sum"));
    expect_sum(losses.weight_sum, golden.at("weight_sum"));
    losses.loss_sum.backward();
    expect_values(own.output.hidden.grad(), golden.at("hidden_gradient"));
    expect_values(own.output.head.grad(), golden.at("head_gradient"));

    const Evaluation evaluation = own.objective->evaluate(output, own.batch);
    EXPECT_FALSE(evaluation.losses.loss_sum.requires_grad());
    expect_sum(evaluation.losses.loss_sum, golden.at("plain_loss_sum"));
    expect_sum(evaluation.losses.weight_sum, golden.at("weight_sum"));
    ASSERT_EQ(evaluation.metric_sums.sizes(), at::IntArrayRef({1}));
    EXPECT_EQ(evaluation.metric_sums.scalar_type(), at::kDouble);
    EXPECT_NEAR(evaluation.metric_sums[0].item<double>(), golden.at("hits").get<double>(), 1e-6);
    EXPECT_TRUE(at::equal(own.objective->metric_sums(output, own.batch), evaluation.metric_sums));
  }
}

TEST(LanguageModeling, AgreesWithTorch) {
  const json golden = golden::read("objectives/language.json");
  ASSERT_EQ(golden.size(), 14U);
  for (const json& one : golden) expect_golden(one, at::kCPU);
}

TEST(LanguageModeling, NamesItsMetrics) {
  const auto objective = make_objective(config::LanguageModeling{}, 0);
  EXPECT_THAT(objective->metric_names(), ElementsAre("accuracy"));
  EXPECT_TRUE(objective->has_perplexity());
  EXPECT_FALSE(make_objective(config::CrossEntropy{}, 5)->has_perplexity());
}

// Micro-batches with unequal counts of valid tokens: their sums add up to the whole batch's.
TEST(LanguageModeling, SumsDoNotDependOnHowABatchIsCut) {
  const Case own = make_case(golden::read("objectives/language.json")[7]);
  own.batch.target[0].narrow(0, 1, 5).fill_(kIgnored);
  const Losses whole = own.objective->loss(own.output, own.batch);
  whole.loss_sum.div(whole.weight_sum).backward();
  const at::Tensor wanted = own.output.head.grad().clone();
  own.output.head.mutable_grad().zero_();
  double loss = 0;
  double weight = 0;
  for (const int sample : {0, 1}) {
    Output output = own.output;
    output.hidden = own.output.hidden.narrow(0, sample, 1);
    Batch part;
    part.target = own.batch.target.narrow(0, sample, 1);
    part.weight = own.batch.weight.narrow(0, sample, 1);
    const Losses losses = own.objective->loss(output, part);
    losses.loss_sum.div(whole.weight_sum).backward();
    loss += losses.loss_sum.item<double>();
    weight += losses.weight_sum.item<double>();
  }
  EXPECT_NEAR(loss, whole.loss_sum.item<double>(), 1e-5 * loss);
  EXPECT_NEAR(weight, whole.weight_sum.item<double>(), 1e-6);
  EXPECT_LT(own.output.head.grad().sub(wanted).abs().max().item<double>(), 1e-6);
}

TEST(LanguageModeling, CountsEachTokenOnceWithoutWeights) {
  Case own = make_case(golden::read("objectives/language.json")[4]);
  own.batch.weight.fill_(1);
  const Losses ones = own.objective->loss(own.output, own.batch);
  const Evaluation evaluated = own.objective->evaluate(own.output, own.batch);
  own.batch.weight.reset();
  const Losses none = own.objective->loss(own.output, own.batch);
  EXPECT_TRUE(at::equal(none.loss_sum, ones.loss_sum));
  EXPECT_TRUE(at::equal(none.weight_sum, ones.weight_sum));
  EXPECT_EQ(none.weight_sum.item<float>(), 8.F);
  EXPECT_TRUE(
      at::equal(own.objective->evaluate(own.output, own.batch).metric_sums, evaluated.metric_sums));
}

TEST(LanguageModeling, LeavesOutSamplesOfWeightZero) {
  const Case own = make_case(golden::read("objectives/language.json")[4]);
  own.batch.weight[0] = 0;
  const Losses both = own.objective->loss(own.output, own.batch);
  both.loss_sum.backward();
  EXPECT_TRUE(own.output.hidden.grad()[0].eq(0).all().item<bool>());
  EXPECT_TRUE(own.output.hidden.grad()[1].ne(0).any().item<bool>());
}

TEST(LanguageModeling, SaysWhatDoesNotFit) {
  const Case own = make_case(golden::read("objectives/language.json")[4]);
  Output classes;
  classes.logits = at::zeros({2, 7});
  try {
    own.objective->loss(classes, own.batch);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("12 target tokens for 2 predictions"));
  }
  Batch soft;
  soft.target = at::zeros({2, 7});
  try {
    own.objective->evaluate(own.output, soft);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("needs a target token for each token"));
  }
}

#ifdef TRAINER_CUDA
TEST(GpuLanguageModeling, AgreesWithTorch) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  at::globalContext().setAllowTF32CuBLAS(false);
  for (const json& one : golden::read("objectives/language.json")) expect_golden(one, at::kCUDA);
}

TEST(GpuLanguageModeling, NeverWaitsForTheGpu) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  const Case own = make_case(golden::read("objectives/language.json")[7], at::kCUDA);
  const auto use = [&own] {
    for (const Output& output : {own.output, with_logits(own.output)}) {
      own.objective->loss(output, own.batch).loss_sum.backward();
      own.objective->evaluate(output, own.batch);
    }
  };
  use();  // libraries may wait while they initialise
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  EXPECT_NO_THROW(use());
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
}
#endif

}  // namespace
}  // namespace trainer::objectives

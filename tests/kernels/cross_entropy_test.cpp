// Losses and gradients of rows of logits against the formulas of kernels/cross_entropy.h, computed
// in float64 from the same rounded logits.
#include "kernels/cross_entropy.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/tensors.h"
#include "support/formula.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::kernels {
namespace {

constexpr float kPoison = 77;
// Of float32 arithmetic on values of a few units, the GPU's approximate exponential included.
constexpr double kFloatError = 3e-6;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Shape {
  std::int64_t rows = 6;
  std::int64_t columns = 7;
  std::int64_t padding = 0;  // values between the rows
  std::int64_t offset = 0;   // values before the first row
};

// Tensors of a task; `whole` is the memory that the logits lie in.
struct Case {
  at::Tensor whole;
  CrossEntropy task;
};

// Every third target from the second on is ignored.
at::Tensor targets_of(const Shape& shape) {
  at::Tensor targets = formula::targets(shape.rows, shape.columns);
  for (std::int64_t row = 1; row < shape.rows; row += 3) targets[row] = kIgnored;
  return targets;
}

Case make_case(const Shape& shape, at::ScalarType type, at::Device device = at::kCPU) {
  const std::int64_t stride = shape.columns + shape.padding;
  Case made;
  made.whole = at::full({shape.offset + shape.rows * stride}, kPoison, at::kFloat);
  const at::Tensor values = formula::tensor({shape.rows, shape.columns}, 21, 6.0);
  const auto logits = [&shape, stride](const at::Tensor& whole) {
    return whole.narrow(0, shape.offset, shape.rows * stride)
        .view({shape.rows, stride})
        .narrow(1, 0, shape.columns);
  };
  logits(made.whole).copy_(values);
  made.whole = made.whole.to(at::TensorOptions().dtype(type).device(device));
  made.task.logits = logits(made.whole);
  made.task.targets = targets_of(shape).to(device);
  made.task.factors = formula::tensor({shape.rows}, 22, 0.5, 1.0).to(device);
  made.task.losses = at::full({shape.rows}, kPoison, at::kFloat).to(device);
  made.task.hits = at::full({shape.rows}, kPoison, at::kFloat).to(device);
  return made;
}

struct Wanted {
  at::Tensor losses, hits, gradient;  // float64
};

Wanted reference(const CrossEntropy& task) {
  const at::Tensor logits = task.logits.detach().cpu().to(at::kDouble).contiguous();
  const at::Tensor targets = task.targets.cpu();
  const std::int64_t columns = logits.size(1);
  Wanted wanted{.losses = at::full({logits.size(0)}, 0, at::kDouble),
                .hits = at::full({logits.size(0)}, 0, at::kDouble),
                .gradient = at::full(logits.sizes(), 0, at::kDouble)};
  for (std::int64_t row = 0; row < logits.size(0); ++row) {
    const auto target = targets[row].item<std::int64_t>();
    if (target == kIgnored) continue;
    const double* x = logits.const_data_ptr<double>() + row * columns;
    double* gradient = wanted.gradient.mutable_data_ptr<double>() + row * columns;
    double top = x[0];
    std::int64_t first = 0;
    for (std::int64_t j = 1; j < columns; ++j) {
      if (x[j] > top) first = j;
      top = std::max(top, x[j]);
    }
    double exps = 0;
    double plain = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      exps += std::exp(x[j] - top);
      plain += x[j];
    }
    const double lse = top + std::log(exps);
    const double eps = task.label_smoothing;
    const double mean = plain / static_cast<double>(columns);
    wanted.losses[row] =
        (1 - eps) * (lse - x[target]) + eps * (lse - mean) + task.z_loss * lse * lse;
    wanted.hits[row] = first == target ? 1 : 0;
    const double factor = task.factors.defined() ? task.factors[row].item<double>() : 1.0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const double p = std::exp(x[j] - lse);
      gradient[j] = factor * (p * (1 + 2 * task.z_loss * lse) - eps / static_cast<double>(columns) -
                              (j == target ? 1 - eps : 0));
    }
  }
  return wanted;
}

// Half a unit in the last place, relative: the gradient is rounded once, when it is stored.
double rounding(at::ScalarType type) {
  if (type == at::kBFloat16) return 0x1p-8;
  if (type == at::kHalf) return 0x1p-11;
  return type == at::kDouble ? 0 : 0x1p-24;
}

// By how much the difference exceeds `relative`, at most.
double excess(const at::Tensor& got, const at::Tensor& wanted, double relative) {
  const at::Tensor difference = got.detach().cpu().to(at::kDouble).sub(wanted).abs();
  EXPECT_FALSE(difference.isnan().any().item<bool>());
  return difference.sub(wanted.abs(), relative).max().item<double>();
}

void expect_reference(const Shape& shape, at::ScalarType type, double smoothing, double z_loss,
                      at::Device device = at::kCPU) {
  SCOPED_TRACE(testing::Message() << c10::toString(type) << " " << shape.rows << "x"
                                  << shape.columns << " padding " << shape.padding << " offset "
                                  << shape.offset << " smoothing " << smoothing << " z " << z_loss);
  Case own = make_case(shape, type, device);
  own.task.label_smoothing = smoothing;
  own.task.z_loss = z_loss;
  own.task.gradient = true;
  const Wanted wanted = reference(own.task);
  cross_entropy(own.task);
  EXPECT_LE(excess(own.task.losses, wanted.losses, 2e-6), kFloatError);
  EXPECT_LE(excess(own.task.hits, wanted.hits, 0), 0);
  EXPECT_LE(excess(own.task.logits, wanted.gradient, rounding(type)), kFloatError);
  // What lies between the rows is nobody's to write.
  const std::int64_t stride = shape.columns + shape.padding;
  const at::Tensor between =
      own.whole.narrow(0, shape.offset, shape.rows * stride).view({shape.rows, stride});
  EXPECT_TRUE(between.narrow(1, shape.columns, shape.padding).eq(kPoison).all().item<bool>());
  EXPECT_TRUE(own.whole.narrow(0, 0, shape.offset).eq(kPoison).all().item<bool>());
}

void expect_all_options(const Shape& shape, at::ScalarType type, at::Device device = at::kCPU) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const double z_loss : {0.0, 0.01}) {
      expect_reference(shape, type, smoothing, z_loss, device);
    }
  }
}

TEST(CrossEntropyRows, AgreeWithTheFormula) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble}) {
    for (const std::int64_t columns : {1, 2, 7, 64, 131}) {
      expect_all_options({.columns = columns}, type);
      expect_all_options({.columns = columns, .padding = 5, .offset = 3}, type);
    }
  }
}

TEST(CrossEntropyRows, WithoutFactorsTheGradientIsThatOfTheLoss) {
  Case own = make_case({}, at::kFloat);
  own.task.factors.reset();
  own.task.gradient = true;
  const Wanted wanted = reference(own.task);
  cross_entropy(own.task);
  EXPECT_LE(excess(own.task.logits, wanted.gradient, 0), 1e-6);
}

TEST(CrossEntropyRows, OnlyReadTheLogitsWithoutAGradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Case own = make_case({}, type);
    const at::Tensor before = own.whole.clone();
    cross_entropy(own.task);
    EXPECT_TRUE(at::equal(own.whole, before));
    EXPECT_LE(excess(own.task.losses, reference(own.task).losses, 1e-6), 1e-6);
  }
}

void expect_zeros_for_ignored_rows(at::Device device) {
  Case own = make_case({.rows = 3}, at::kFloat, device);
  own.task.targets.fill_(kIgnored);
  own.task.logits[1].fill_(kNan);
  own.task.gradient = true;
  own.task.z_loss = 0.1;
  cross_entropy(own.task);
  EXPECT_TRUE(own.task.losses.eq(0).all().item<bool>());
  EXPECT_TRUE(own.task.hits.eq(0).all().item<bool>());
  EXPECT_TRUE(own.task.logits.eq(0).all().item<bool>());
}

TEST(CrossEntropyRows, AreZeroWhereTheTargetIsIgnored) { expect_zeros_for_ignored_rows(at::kCPU); }

// Ties go to the first, and a row with a NaN is no hit.
void expect_hits(at::Device device) {
  Case own = make_case({.rows = 5, .columns = 4}, at::kFloat, device);
  const auto inf = std::numeric_limits<double>::infinity();
  own.task.logits.copy_(at::tensor({2.0,  2.0,  1.0,  0.0,   //
                                    2.0,  2.0,  1.0,  0.0,   //
                                    -inf, -1.0, -2.0, -inf,  //
                                    1.0,  5.0,  kNan, 0.0,   //
                                    kNan, kNan, kNan, kNan})
                            .view({5, 4}));
  own.task.targets.copy_(at::tensor({0, 1, 1, 1, 0}, at::kLong));
  cross_entropy(own.task);
  EXPECT_TRUE(at::equal(own.task.hits.cpu(), at::tensor({1.F, 0.F, 1.F, 0.F, 0.F})));
  const at::Tensor losses = own.task.losses.cpu();
  EXPECT_NEAR(losses[2].item<double>(), std::log1p(std::exp(-1.0)), 1e-6);
  EXPECT_TRUE(std::isnan(losses[3].item<double>()));
  EXPECT_TRUE(std::isnan(losses[4].item<double>()));
}

TEST(CrossEntropyRows, CountTheFirstOfTheLargestAsHit) { expect_hits(at::kCPU); }

void expect_large_logits_to_keep_precision(at::Device device) {
  Case own = make_case({.rows = 2, .columns = 3}, at::kFloat, device);
  own.task.logits.copy_(at::tensor({10000.0, 10001.0, -10000.0, -88.0, -89.0, -90.0}).view({2, 3}));
  own.task.targets.copy_(at::tensor({0, 2}, at::kLong));
  own.task.gradient = true;
  const Wanted wanted = reference(own.task);
  cross_entropy(own.task);
  // A unit of float32 at 10000 is 1e-3: lse is no better.
  EXPECT_LE(excess(own.task.losses, wanted.losses, 0), 1e-3);
  EXPECT_LE(excess(own.task.logits, wanted.gradient, 0), 1e-3);
}

TEST(CrossEntropyRows, TakeLargeLogits) { expect_large_logits_to_keep_precision(at::kCPU); }

TEST(CrossEntropyRows, NameATargetOutsideOfTheVocabulary) {
  for (const std::int64_t target : {7, -1}) {
    const Case own = make_case({}, at::kFloat);
    own.task.targets[2] = target;
    try {
      cross_entropy(own.task);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data);
      EXPECT_THAT(error.what(), testing::HasSubstr("token " + std::to_string(target) +
                                                   ", and the vocabulary has 7"));
    }
  }
}

TEST(CrossEntropyRows, MayBeNone) {
  Case own = make_case({.rows = 0}, at::kFloat);
  own.task.gradient = true;
  EXPECT_NO_THROW(cross_entropy(own.task));
}

#ifdef TRAINER_CUDA
class GpuCrossEntropyRows : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  }
};

TEST_F(GpuCrossEntropyRows, AgreeWithTheFormula) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t columns : {1, 3, 7, 8, 31, 64, 131, 1000, 4099}) {
      expect_all_options({.columns = columns}, type, at::kCUDA);
      // Rows begin at every place within 16 bytes.
      expect_all_options({.rows = 17, .columns = columns, .padding = 5, .offset = 3}, type,
                         at::kCUDA);
    }
  }
}

TEST_F(GpuCrossEntropyRows, AgreeWithTheFormulaOnAnOddLargeVocabulary) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t padding : {0, 47, 1}) {
      expect_reference({.rows = 9, .columns = 50257, .padding = padding}, type, 0.1, 0.001,
                       at::kCUDA);
    }
  }
}

TEST_F(GpuCrossEntropyRows, AreZeroWhereTheTargetIsIgnored) {
  expect_zeros_for_ignored_rows(at::kCUDA);
}

TEST_F(GpuCrossEntropyRows, CountTheFirstOfTheLargestAsHit) { expect_hits(at::kCUDA); }

TEST_F(GpuCrossEntropyRows, TakeLargeLogits) { expect_large_logits_to_keep_precision(at::kCUDA); }

TEST_F(GpuCrossEntropyRows, OnlyReadTheLogitsWithoutAGradient) {
  const Case own = make_case({.columns = 1001}, at::kBFloat16, at::kCUDA);
  const at::Tensor before = own.whole.clone();
  cross_entropy(own.task);
  EXPECT_TRUE(at::equal(own.whole, before));
}

TEST_F(GpuCrossEntropyRows, GiveNanForATargetOutsideOfTheVocabulary) {
  for (const std::int64_t target : {7, -1}) {
    Case own = make_case({}, at::kFloat, at::kCUDA);
    own.task.targets[2] = target;
    own.task.gradient = true;
    cross_entropy(own.task);
    const at::Tensor is_nan = own.task.losses.isnan().cpu();
    EXPECT_TRUE(is_nan[2].item<bool>());
    EXPECT_EQ(is_nan.sum().item<std::int64_t>(), 1);
    EXPECT_TRUE(own.task.logits[2].isnan().all().item<bool>());
    EXPECT_EQ(own.task.hits[2].item<float>(), 0.F);
  }
}

TEST_F(GpuCrossEntropyRows, AreTheSameBitsEachTime) {
  const auto once = [] {
    Case own = make_case({.rows = 64, .columns = 50257}, at::kFloat, at::kCUDA);
    own.task.gradient = true;
    cross_entropy(own.task);
    return own;
  };
  const Case first = once();
  const Case second = once();
  EXPECT_TRUE(at::equal(first.whole, second.whole));
  EXPECT_TRUE(at::equal(first.task.losses, second.task.losses));
}

TEST_F(GpuCrossEntropyRows, NeverWaitForTheGpu) {
  Case own = make_case({}, at::kBFloat16, at::kCUDA);
  own.task.gradient = true;
  cross_entropy(own.task);
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  EXPECT_NO_THROW(cross_entropy(own.task));
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
}
#endif

}  // namespace
}  // namespace trainer::kernels

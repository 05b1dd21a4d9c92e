// The chunked head and loss against plain autograd over whole logits in float64.
#include "objectives/linear_cross_entropy.h"

#include <ATen/Context.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mm.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "core/error.h"
#include "core/tensors.h"
#include "objectives/autocast.h"
#include "support/formula.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::objectives {
namespace {

enum class Ignored { none, some, all };

struct Shape {
  std::int64_t rows = 13;
  std::int64_t width = 5;
  std::int64_t vocabulary = 7;
  Ignored ignored = Ignored::some;
  bool weighted = true;
};

struct Case {
  at::Tensor hidden, head, targets, weights;
};

Case make_case(const Shape& shape, at::Device device = at::kCPU) {
  at::Tensor targets = formula::targets(shape.rows, shape.vocabulary);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    if (shape.ignored == Ignored::all || (shape.ignored == Ignored::some && row % 4 == 1))
      targets[row] = kIgnored;
  }
  Case made{.hidden = formula::tensor({shape.rows, shape.width}, 31, 2.0).to(device),
            .head = formula::tensor({shape.vocabulary, shape.width}, 32, 1.5).to(device),
            .targets = targets.to(device),
            .weights = {}};
  if (shape.weighted) made.weights = formula::tensor({shape.rows}, 33, 0.5, 1.0).to(device);
  made.hidden.requires_grad_(true);
  made.head.requires_grad_(true);
  return made;
}

struct Results {
  at::Tensor loss, hidden, head;  // the gradients by the latter two
};

constexpr double kScale = 0.25;  // of the loss, as the trainer divides it

Results chunked(const Case& own, const LinearCrossEntropy& options) {
  const at::Tensor hidden = own.hidden.detach().requires_grad_(own.hidden.requires_grad());
  const at::Tensor head = own.head.detach().requires_grad_(own.head.requires_grad());
  const at::Tensor loss = linear_cross_entropy(hidden, head, own.targets, own.weights, options);
  EXPECT_EQ(loss.dim(), 0);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  loss.mul(kScale).backward();
  return {.loss = loss.detach(), .hidden = hidden.grad(), .head = head.grad()};
}

Results whole(const Case& own, const LinearCrossEntropy& options) {
  const auto wide = [](const at::Tensor& tensor) {
    return tensor.detach().cpu().to(at::kDouble).requires_grad_(true);
  };
  const at::Tensor hidden = wide(own.hidden);
  const at::Tensor head = wide(own.head);
  const at::Tensor targets = own.targets.cpu();
  const at::Tensor logits = at::mm(hidden, head.t());
  at::Tensor losses = at::cross_entropy_loss(logits, targets, {}, at::Reduction::None, kIgnored,
                                             options.label_smoothing);
  const at::Tensor squares = at::logsumexp(logits, {1}).square();
  losses = losses.add(squares.masked_fill(targets.eq(kIgnored), 0), options.z_loss);
  if (own.weights.defined()) losses = losses.mul(own.weights.cpu());
  const at::Tensor loss = losses.sum();
  loss.mul(kScale).backward();
  return {.loss = loss.detach(), .hidden = hidden.grad(), .head = head.grad()};
}

// The largest difference, relative to the largest value where that is above 1.
double distance(const at::Tensor& got, const at::Tensor& wanted) {
  const at::Tensor difference = got.cpu().to(at::kDouble).sub(wanted).abs();
  EXPECT_FALSE(difference.isnan().any().item<bool>());
  return difference.max().item<double>() / std::max(wanted.abs().max().item<double>(), 1.0);
}

void expect_near(const Results& got, const Results& wanted, double tolerance) {
  EXPECT_LT(distance(got.loss, wanted.loss), tolerance);
  EXPECT_LT(distance(got.hidden, wanted.hidden), tolerance);
  EXPECT_LT(distance(got.head, wanted.head), tolerance);
}

void expect_agreement(const Shape& shape, at::Device device, double tolerance) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const double z_loss : {0.0, 0.01}) {
      for (const std::int64_t chunk : {1, 7, 0}) {
        SCOPED_TRACE(testing::Message() << "vocabulary " << shape.vocabulary << " smoothing "
                                        << smoothing << " z " << z_loss << " chunk " << chunk);
        const LinearCrossEntropy options{smoothing, z_loss, chunk};
        const Case own = make_case(shape, device);
        expect_near(chunked(own, options), whole(own, options), tolerance);
      }
    }
  }
}

TEST(LinearCrossEntropy, AgreesWithWholeLogitsInFloat64) {
  for (const std::int64_t vocabulary : {1, 2, 7, 64, 131}) {
    for (const auto ignored : {Ignored::none, Ignored::some, Ignored::all}) {
      expect_agreement({.vocabulary = vocabulary, .ignored = ignored}, at::kCPU, 2e-6);
    }
  }
  expect_agreement({.weighted = false}, at::kCPU, 2e-6);
}

// float32 products that add tens of thousands of terms are no better: PyTorch's own are off by
// 2e-5.
constexpr double kLargeVocabulary = 5e-5;

// 300 rows take several chunks of the automatic size with this vocabulary.
TEST(LinearCrossEntropy, ChoosesItsChunks) {
  const Case own = make_case({.rows = 300, .width = 3, .vocabulary = 33001});
  expect_near(chunked(own, {}), whole(own, {}), kLargeVocabulary);
}

TEST(LinearCrossEntropy, GivesGradientsInTheInputsTypes) {
  Case own = make_case({});
  own.hidden = own.hidden.detach().to(at::kBFloat16).requires_grad_(true);
  const Results got = chunked(own, {});
  EXPECT_EQ(got.hidden.scalar_type(), at::kBFloat16);
  EXPECT_EQ(got.head.scalar_type(), at::kFloat);
  // bfloat16 keeps 8 bits of the gradient by hidden; the products are in float32.
  const Results wanted = whole(own, {});
  EXPECT_LT(distance(got.hidden, wanted.hidden), 0x1p-7);
  EXPECT_LT(distance(got.head, wanted.head), 2e-6);

  own.head = own.head.detach().to(at::kBFloat16).requires_grad_(true);
  const Results half = chunked(own, {});
  EXPECT_EQ(half.head.scalar_type(), at::kBFloat16);
  expect_near(half, whole(own, {}), 0x1p-5);

  own.hidden = own.hidden.detach().to(at::kDouble).requires_grad_(true);
  own.head = own.head.detach().to(at::kDouble).requires_grad_(true);
  const Results wide = chunked(own, {});
  EXPECT_LT(distance(wide.hidden, whole(own, {}).hidden), 1e-12);
  EXPECT_LT(distance(wide.head, whole(own, {}).head), 1e-12);
}

// Inputs, logits and their gradients have 8 bits there, and errors of a product of `width` terms
// add up as their root: some units of 2^-8. Results stay float32, and the sums over chunks too:
// without that the head's gradient would be off by far more for chunks of one row.
void expect_agreement_under_autocast(at::Device device, at::ScalarType type, double tolerance) {
  for (const std::int64_t vocabulary : {7, 64, 131}) {
    for (const std::int64_t chunk : {1, 7, 0}) {
      SCOPED_TRACE(testing::Message()
                   << c10::toString(type) << " vocabulary " << vocabulary << " chunk " << chunk);
      const LinearCrossEntropy options{0.1, 0.01, chunk};
      const Case own = make_case({.rows = 200, .width = 16, .vocabulary = vocabulary}, device);
      std::optional<Autocast> autocast(std::in_place, device.type(), type);
      const Results got = chunked(own, options);
      autocast.reset();
      EXPECT_EQ(got.hidden.scalar_type(), at::kFloat);
      EXPECT_EQ(got.head.scalar_type(), at::kFloat);
      const Results wanted = whole(own, options);
      expect_near(got, wanted, tolerance);
      EXPECT_GT(distance(got.head, wanted.head), 1e-6) << "as exact as float32: no autocast";
    }
  }
}

TEST(LinearCrossEntropy, MultipliesInTheAutocastType) {
  expect_agreement_under_autocast(at::kCPU, at::kBFloat16, 0.03);
}

TEST(LinearCrossEntropy, LeavesOutWhatNobodyWants) {
  const Results both = chunked(make_case({}), {});
  Case own = make_case({});
  own.head.requires_grad_(false);
  const Results hidden_only = chunked(own, {});
  EXPECT_TRUE(at::equal(hidden_only.hidden, both.hidden));
  EXPECT_FALSE(hidden_only.head.defined());
  own = make_case({});
  own.hidden.requires_grad_(false);
  const Results head_only = chunked(own, {});
  EXPECT_TRUE(at::equal(head_only.head, both.head));
  EXPECT_FALSE(head_only.hidden.defined());

  own.head.requires_grad_(false);
  const at::Tensor loss = linear_cross_entropy(own.hidden, own.head, own.targets, own.weights);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_TRUE(at::equal(loss, both.loss));
  const at::NoGradGuard no_grad;
  own = make_case({});
  EXPECT_TRUE(
      at::equal(linear_cross_entropy(own.hidden, own.head, own.targets, own.weights), both.loss));
}

TEST(LinearCrossEntropy, TakesSequencesInAnyLayout) {
  const Case own = make_case({.rows = 12});
  const Results rows = chunked(own, {});
  Case shaped = own;
  shaped.hidden = own.hidden.detach().view({3, 4, 5}).requires_grad_(true);
  shaped.targets = own.targets.view({3, 4});
  const Results sequences = chunked(shaped, {});
  EXPECT_TRUE(at::equal(sequences.loss, rows.loss));
  EXPECT_TRUE(at::equal(sequences.hidden.view({12, 5}), rows.hidden));

  shaped.hidden = own.hidden.detach().view({3, 4, 5}).transpose(0, 1).contiguous().transpose(0, 1);
  shaped.hidden.requires_grad_(true);
  const Results strided = chunked(shaped, {});
  EXPECT_TRUE(at::equal(strided.loss, rows.loss));
  EXPECT_TRUE(at::equal(strided.hidden.reshape({12, 5}), rows.hidden));
}

TEST(LinearCrossEntropy, IsZeroWithoutTokens) {
  for (const Shape& shape : {Shape{.rows = 0}, Shape{.ignored = Ignored::all}}) {
    const Results got = chunked(make_case(shape), {.label_smoothing = 0.1, .z_loss = 0.1});
    EXPECT_EQ(got.loss.item<float>(), 0.F);
    EXPECT_TRUE(got.hidden.eq(0).all().item<bool>());
    EXPECT_TRUE(got.head.eq(0).all().item<bool>());
  }
}

TEST(LinearCrossEntropy, HasOneBackwardPass) {
  const Case own = make_case({});
  const at::Tensor loss = linear_cross_entropy(own.hidden, own.head, own.targets, {});
  loss.backward({}, /*retain_graph=*/true);
  EXPECT_THROW(loss.backward(), c10::Error);
}

// The gradient lies in the memory that the pass allocated, which has rows up to the next multiple
// of 64: a copy would be as small as the parameter.
TEST(LinearCrossEntropy, GivesAParameterItsGradientWithoutACopy) {
  const Case own = make_case({});
  {
    const Autocast autocast(at::kCPU);
    linear_cross_entropy(own.hidden, own.head, own.targets, {}).backward();
  }
  EXPECT_EQ(own.head.grad().storage().nbytes(), sizeof(float) * 64 * 5);
}

TEST(LinearCrossEntropy, AddsToAGradient) {
  const Case own = make_case({});
  linear_cross_entropy(own.hidden, own.head, own.targets, {}).backward();
  const at::Tensor first = own.head.grad().clone();
  linear_cross_entropy(own.hidden, own.head, own.targets, {}).backward();
  EXPECT_TRUE(at::equal(own.head.grad(), first.mul(2)));
}

TEST(LinearCrossEntropy, NamesATargetOutsideOfTheVocabulary) {
  const Case own = make_case({});
  own.targets[3] = 50256;
  try {
    linear_cross_entropy(own.hidden, own.head, own.targets, own.weights);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    EXPECT_THAT(error.what(), testing::HasSubstr("token 50256"));
  }
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFit) {
  const Case own = make_case({});
  EXPECT_THROW(linear_cross_entropy(own.hidden.narrow(1, 0, 4), own.head, own.targets, {}),
               c10::Error);
  EXPECT_THROW(linear_cross_entropy(own.hidden, own.head, own.targets.narrow(0, 0, 3), {}),
               c10::Error);
}

void expect_token_results(at::Device device) {
  const Case own = make_case({.vocabulary = 131}, device);
  const TokenResults got =
      token_results(own.hidden, own.head, own.targets, {.label_smoothing = 0, .chunk = 4});
  EXPECT_FALSE(got.losses.requires_grad());
  const at::Tensor logits = at::mm(own.hidden.detach(), own.head.detach().t()).cpu();
  const at::Tensor targets = own.targets.cpu();
  const at::Tensor losses =
      at::cross_entropy_loss(logits.to(at::kDouble), targets, {}, at::Reduction::None, kIgnored);
  EXPECT_LT(distance(got.losses, losses), 2e-6);
  EXPECT_TRUE(at::equal(got.hits.cpu().to(at::kBool), logits.argmax(1).eq(targets)));
}

TEST(LinearCrossEntropy, GivesResultsOfTokens) { expect_token_results(at::kCPU); }

#ifdef TRAINER_CUDA
class GpuLinearCrossEntropy : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
    // TF32 has 10 bits of mantissa: too few to compare with float64.
    at::globalContext().setAllowTF32CuBLAS(false);
  }
};

TEST_F(GpuLinearCrossEntropy, AgreesWithWholeLogitsInFloat64) {
  for (const std::int64_t vocabulary : {1, 7, 64, 131}) {
    for (const auto ignored : {Ignored::some, Ignored::all}) {
      expect_agreement({.vocabulary = vocabulary, .ignored = ignored}, at::kCUDA, 5e-6);
    }
  }
}

TEST_F(GpuLinearCrossEntropy, MultipliesInTheAutocastType) {
  expect_agreement_under_autocast(at::kCUDA, at::kBFloat16, 0.03);
  expect_agreement_under_autocast(at::kCUDA, at::kHalf, 0.004);
}

TEST_F(GpuLinearCrossEntropy, AgreesOnAnOddLargeVocabulary) {
  const Case own = make_case({.rows = 300, .width = 32, .vocabulary = 50257}, at::kCUDA);
  const LinearCrossEntropy options{0.1, 0.001, 128};
  const Results wanted = whole(own, options);
  expect_near(chunked(own, options), wanted, kLargeVocabulary);
  const Autocast autocast(at::kCUDA);
  expect_near(chunked(own, options), wanted, 0.03);
}

TEST_F(GpuLinearCrossEntropy, GivesResultsOfTokens) { expect_token_results(at::kCUDA); }

TEST_F(GpuLinearCrossEntropy, NeverWaitsForTheGpu) {
  const Case own = make_case({}, at::kCUDA);
  const Autocast autocast(at::kCUDA);
  const auto use = [&own] {
    linear_cross_entropy(own.hidden, own.head, own.targets, own.weights, {.chunk = 4}).backward();
    token_results(own.hidden, own.head, own.targets);
  };
  use();  // libraries may wait while they initialise
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  EXPECT_NO_THROW(use());
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
}

// Whole logits are 1.6 GiB here in bfloat16, and 3.3 in float32.
TEST_F(GpuLinearCrossEntropy, NeedsMemoryForAChunkAndTheGradients) {
  using c10::cuda::CUDACachingAllocator::getDeviceStats;
  const std::int64_t rows = 16384;
  const std::int64_t width = 256;
  const std::int64_t vocabulary = 50257;
  const Case own = make_case({.rows = rows, .width = width, .vocabulary = vocabulary}, at::kCUDA);
  const Autocast autocast(at::kCUDA);
  const auto use = [&own] {
    linear_cross_entropy(own.hidden, own.head, own.targets, own.weights).backward();
  };
  use();  // makes the libraries' workspaces, and the gradients
  const auto allocated = [](bool peak) {
    const auto bytes = getDeviceStats(0).allocated_bytes[0];
    return peak ? bytes.peak : bytes.current;
  };
  own.hidden.mutable_grad().reset();
  own.head.mutable_grad().reset();
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  const std::int64_t before = allocated(false);
  use();
  const std::int64_t chunk = std::int64_t{256} << 20;
  const std::int64_t gradients = 4 * (rows + vocabulary + 64) * width;
  const std::int64_t cast_head = 2 * (vocabulary + 64) * width;
  const std::int64_t rest = std::int64_t{16} << 20;  // a chunk's hidden states, losses, rounding
  EXPECT_LT(allocated(true) - before, chunk + gradients + cast_head + rest);
  EXPECT_GT(allocated(true) - before, gradients) << "nothing was measured";
}
#endif

}  // namespace
}  // namespace trainer::objectives

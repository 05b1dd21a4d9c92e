#include "checkpoint/staging.h"

#include <ATen/Context.h>

#include "support.h"

namespace trainer::checkpoint {
namespace {

TEST(Staging, CopiesAreOfTheMomentAndContiguous) {
  Staging staging;
  const at::Tensor source = patterned({3, 4}, at::kFloat);
  const at::Tensor before = source.clone();
  staging.begin();
  const at::Tensor copy = staging.copy("a", source.t());
  EXPECT_TRUE(staging.end().empty());
  source.fill_(9);
  EXPECT_TRUE(copy.is_contiguous());
  expect_same(copy, before.t(), "a");
}

TEST(Staging, BuffersAreKeptWhileShapesAre) {
  Staging staging;
  const auto copy = [&](const at::Tensor& source) {
    staging.begin();
    at::Tensor made = staging.copy("a", source);
    staging.end();
    return made;
  };
  // Held, so that an equal address cannot be freed memory used again.
  const at::Tensor first = copy(patterned({4}, at::kFloat));
  EXPECT_EQ(copy(patterned({4}, at::kFloat)).const_data_ptr(), first.const_data_ptr());
  expect_same(copy(patterned({400}, at::kFloat)), patterned({400}, at::kFloat), "a");
}

TEST(Staging, ParametersThatRequireGradients) {
  Staging staging;
  const at::Tensor source = patterned({4}, at::kFloat).requires_grad_(true);
  staging.begin();
  EXPECT_FALSE(staging.copy("a", source).requires_grad());
}

TEST(Staging, DeviceTensorsAreCompleteAfterTheEvents) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  Staging staging;
  const at::Tensor host = patterned({1 << 20}, at::kFloat);
  const at::Tensor source = host.to(at::Device(at::kCUDA));
  staging.begin();
  const at::Tensor copy = staging.copy("a", source);
  std::vector<c10::Event> ready = staging.end();
  source.fill_(0);  // behind the copy in the stream
  ASSERT_EQ(ready.size(), 1U);
  ready[0].synchronize();
  EXPECT_TRUE(copy.is_pinned());
  expect_same(copy, host, "a");
}

}  // namespace
}  // namespace trainer::checkpoint

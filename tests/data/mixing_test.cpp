#include "data/mixing.h"

#include <gtest/gtest.h>

namespace trainer::data {
namespace {

constexpr int kSteps = 2000;

TEST(Mixing, EachKindIsDrawnAsOftenAsItsProbability) {
  int mixup = 0;
  int cutmix = 0;
  for (int step = 0; step < kSteps; ++step) {
    const Mixing mixing = draw_mixing({0.2, 1.0, 0.8}, 3, step, 32, 32);
    mixup += mixing.kind == Mixing::Kind::mixup ? 1 : 0;
    cutmix += mixing.kind == Mixing::Kind::cutmix ? 1 : 0;
  }
  EXPECT_NEAR(mixup, 0.4 * kSteps, 90);
  EXPECT_NEAR(cutmix, 0.4 * kSteps, 90);
}

TEST(Mixing, OnlyWhatIsOnIsDrawn) {
  for (int step = 0; step < 50; ++step) {
    EXPECT_EQ(draw_mixing({0.2, 0, 1}, 3, step, 8, 8).kind, Mixing::Kind::mixup);
    EXPECT_EQ(draw_mixing({0, 1, 1}, 3, step, 8, 8).kind, Mixing::Kind::cutmix);
    EXPECT_EQ(draw_mixing({0, 0, 1}, 3, step, 8, 8).kind, Mixing::Kind::none);
    EXPECT_EQ(draw_mixing({1, 1, 0}, 3, step, 8, 8).kind, Mixing::Kind::none);
  }
}

TEST(Mixing, IsAFunctionOfSeedAndStep) {
  const Mixing first = draw_mixing({0.4, 0, 1}, 3, 7, 8, 8);
  EXPECT_EQ(draw_mixing({0.4, 0, 1}, 3, 7, 8, 8).lambda, first.lambda);
  EXPECT_NE(draw_mixing({0.4, 0, 1}, 3, 8, 8, 8).lambda, first.lambda);
  EXPECT_NE(draw_mixing({0.4, 0, 1}, 4, 7, 8, 8).lambda, first.lambda);
}

TEST(Mixing, LambdaOfMixupIsBetaDistributed) {
  double sum = 0;
  double squares = 0;
  for (int step = 0; step < kSteps; ++step) {
    const double lambda = draw_mixing({0.5, 0, 1}, 3, step, 8, 8).lambda;
    sum += lambda;
    squares += lambda * lambda;
  }
  const double mean = sum / kSteps;
  EXPECT_NEAR(mean, 0.5, 0.03);
  // The variance of Beta(a, a) is 1 / (4 (2a + 1)).
  EXPECT_NEAR(squares / kSteps - mean * mean, 0.125, 0.01);
}

TEST(Mixing, LambdaOfCutmixIsTheShareThatIsLeft) {
  for (int step = 0; step < kSteps; ++step) {
    const Mixing mixing = draw_mixing({0, 1, 1}, 3, step, 20, 30);
    const Rectangle& box = mixing.box;
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_GE(box.height, 0);
    ASSERT_GE(box.width, 0);
    ASSERT_LE(box.top + box.height, 20);
    ASSERT_LE(box.left + box.width, 30);
    ASSERT_DOUBLE_EQ(mixing.lambda, 1.0 - box.height * box.width / 600.0);
  }
}

}  // namespace
}  // namespace trainer::data

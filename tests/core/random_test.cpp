#include "core/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

namespace trainer {
namespace {

using ::testing::ElementsAre;

using Counter = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

// The known-answer vectors that Random123 publishes for philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_THAT(philox4x32(Counter{0, 0, 0, 0}, Key{0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(philox4x32(Counter{kOnes, kOnes, kOnes, kOnes}, Key{kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox4x32(Counter{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                         Key{0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

// --- Stream --------------------------------------------------------------------------------------

std::vector<std::uint64_t> draw(Stream stream, int count) {
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(stream.next_u64());
  return numbers;
}

TEST(Stream, IsAFunctionOfItsKey) {
  const Stream stream(7, StreamUse::augmentation, 3, 11);
  EXPECT_EQ(draw(stream, 100), draw(Stream(7, StreamUse::augmentation, 3, 11), 100));
}

TEST(Stream, EveryPartOfTheKeyMatters) {
  const std::vector<Stream> streams{
      Stream(7, StreamUse::augmentation, 3, 11),
      Stream(8, StreamUse::augmentation, 3, 11),
      Stream(7, StreamUse::step, 3, 11),
      Stream(7, StreamUse::augmentation, 4, 11),
      Stream(7, StreamUse::augmentation, 3, 12),
      Stream(7, StreamUse::augmentation, 11, 3),
      Stream(7, StreamUse::augmentation, 3, 11 + (std::uint64_t{1} << 32))};
  std::set<std::uint64_t> seen;
  for (const Stream& stream : streams)
    for (const std::uint64_t number : draw(stream, 64)) seen.insert(number);
  EXPECT_EQ(seen.size(), streams.size() * 64);
}

struct Moments {
  double mean = 0;
  double variance = 0;
};

template <class Draw>
Moments moments(Draw&& draw_one) {
  constexpr int kDraws = 200'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double x = draw_one();
    sum += x;
    squares += x * x;
  }
  const double mean = sum / kDraws;
  return {mean, squares / kDraws - mean * mean};
}

// Tolerances of the moments: over five standard errors at 200,000 draws, with a fixed key.
constexpr std::uint64_t kSeed = 12345;

TEST(Stream, UniformFillsTheUnitInterval) {
  Stream stream(kSeed, StreamUse::synthetic, 0, 0);
  double low = 1;
  double high = 0;
  const Moments m = moments([&] {
    const double x = stream.uniform();
    low = std::min(low, x);
    high = std::max(high, x);
    return x;
  });
  EXPECT_NEAR(m.mean, 0.5, 0.004);
  EXPECT_NEAR(m.variance, 1.0 / 12, 0.001);
  EXPECT_GE(low, 0.0);
  EXPECT_LT(low, 1e-4);
  EXPECT_LT(high, 1.0);
  EXPECT_GT(high, 1 - 1e-4);
}

TEST(Stream, UniformOverARange) {
  Stream stream(kSeed, StreamUse::synthetic, 0, 1);
  const Moments m = moments([&] { return stream.uniform(-3, 5); });
  EXPECT_NEAR(m.mean, 1.0, 0.03);
  EXPECT_NEAR(m.variance, 64.0 / 12, 0.06);
}

TEST(Stream, NormalHasUnitVarianceAndNormalTails) {
  Stream stream(kSeed, StreamUse::synthetic, 0, 2);
  int outside = 0;
  const Moments m = moments([&] {
    const double x = stream.normal();
    outside += std::abs(x) > 1.959964 ? 1 : 0;
    return x;
  });
  EXPECT_NEAR(m.mean, 0.0, 0.012);
  EXPECT_NEAR(m.variance, 1.0, 0.017);
  EXPECT_NEAR(outside / 200'000.0, 0.05, 0.0025);
}

TEST(Stream, BetaHasTheMomentsOfTheDistribution) {
  for (const double alpha : {0.2, 1.0, 2.5}) {
    Stream stream(kSeed, StreamUse::mixing, 0, 0);
    const Moments m = moments([&] {
      const double x = stream.beta(alpha);
      EXPECT_TRUE(x >= 0 && x <= 1) << x;
      return x;
    });
    EXPECT_NEAR(m.mean, 0.5, 0.006) << alpha;
    EXPECT_NEAR(m.variance, 1 / (4 * (2 * alpha + 1)), 0.002) << alpha;
  }
}

TEST(Stream, BetaOfATinyAlphaIsACoin) {
  Stream stream(kSeed, StreamUse::mixing, 0, 1);
  const Moments m = moments([&] { return stream.beta(1e-5); });
  EXPECT_NEAR(m.mean, 0.5, 0.006);
  EXPECT_NEAR(m.variance, 0.25, 0.001);
}

TEST(Stream, BelowIsUniformOverItsRange) {
  Stream stream(kSeed, StreamUse::synthetic, 0, 3);
  EXPECT_EQ(stream.below(1), 0U);
  constexpr std::uint64_t kRange = 7;
  std::array<int, kRange> counts{};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) ++counts.at(stream.below(kRange));
  double chi_square = 0;
  for (const int count : counts) chi_square += std::pow(count - 10'000, 2) / 10'000;
  EXPECT_LT(chi_square, 22.5);  // 6 degrees of freedom: 0.1 % of keys are above
}

// Three quarters of 2^64: a plain remainder would draw the lowest third twice as often.
TEST(Stream, BelowHasNoModuloBias) {
  Stream stream(kSeed, StreamUse::synthetic, 0, 4);
  const std::uint64_t range = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 62);
  int low_third = 0;
  for (int i = 0; i < 30'000; ++i) low_third += stream.below(range) < range / 3 ? 1 : 0;
  EXPECT_NEAR(low_third / 30'000.0, 1.0 / 3, 0.014);
}

// --- Permutation ---------------------------------------------------------------------------------

std::vector<std::uint64_t> all_of(const Permutation& permutation) {
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < permutation.size(); ++i) order.push_back(permutation(i));
  return order;
}

TEST(Permutation, IsABijection) {
  for (const std::uint64_t n : {1,  2,  3,  4,   5,   7,    8,    9,    15,    16,    17,
                                63, 64, 65, 100, 255, 1023, 1024, 1025, 16384, 16385, 100'003}) {
    for (const std::uint64_t key : {0ULL, 1ULL, 0xffffffffffffffffULL}) {
      std::vector<bool> seen(n);
      const Permutation permutation(n, key);
      ASSERT_EQ(permutation.size(), n);
      for (std::uint64_t i = 0; i < n; ++i) {
        const std::uint64_t value = permutation(i);
        ASSERT_LT(value, n);
        ASSERT_FALSE(seen[value]) << value << " twice for n " << n << " and key " << key;
        seen[value] = true;
      }
    }
  }
}

TEST(Permutation, StaysInRangeForHugeSizes) {
  for (const std::uint64_t n :
       {std::uint64_t{1'000'000'007}, (std::uint64_t{1} << 40) + 1, ~std::uint64_t{0}}) {
    const Permutation permutation(n, 5);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      EXPECT_LT(permutation(n - 1 - i), n);
      seen.insert(permutation(n - 1 - i));
    }
    EXPECT_EQ(seen.size(), 1000U);
  }
}

TEST(Permutation, DependsOnTheKey) {
  EXPECT_EQ(all_of(Permutation(100, 1)), all_of(Permutation(100, 1)));
  EXPECT_NE(all_of(Permutation(100, 1)), all_of(Permutation(100, 2)));
}

// Over many keys a position goes everywhere equally often, and neighbours are independent.
TEST(Permutation, SpreadsOverTheKeys) {
  constexpr std::uint64_t kSize = 10;
  constexpr int kKeys = 30'000;
  std::array<int, kSize> first{};
  int ascending = 0;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const Permutation permutation(kSize, mix(key, 0));
    ++first.at(permutation(0));
    ascending += permutation(3) < permutation(4) ? 1 : 0;
  }
  double chi_square = 0;
  for (const int count : first) chi_square += std::pow(count - 3000, 2) / 3000;
  EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom: 0.1 % of draws are above
  EXPECT_NEAR(ascending / 30'000.0, 0.5, 0.015);
}

// Written down so that a change is seen: it would change the data order and the augmentation of
// every run that is resumed.
TEST(Random, GivesTheNumbersItAlwaysGave) {
  EXPECT_THAT(all_of(Permutation(10, 42)), ElementsAre(0, 3, 6, 9, 7, 5, 8, 4, 1, 2));
  EXPECT_THAT(
      draw(Stream(42, StreamUse::augmentation, 1, 2), 3),
      ElementsAre(10615292048920405116ULL, 14168623348812077611ULL, 14723830193618614579ULL));
  EXPECT_EQ(mix(1, 2), 10191765986224606275ULL);
}

}  // namespace
}  // namespace trainer

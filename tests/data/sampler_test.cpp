#include "data/sampler.h"

#include <gmock/gmock.h>

#include <set>

#include "support.h"

namespace trainer::data {
namespace {

using ::testing::HasSubstr;

TEST(Sampler, VisitsEachSampleOnceAnEpoch) {
  for (const std::int64_t samples : {1, 2, 3, 4, 5, 100, 1437}) {
    const Sampler sampler(samples, 8, false, true, 3);
    std::set<std::int64_t> seen;
    for (std::int64_t position = 0; position < samples; ++position)
      seen.insert(sampler.sample(2, position));
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(samples));
    EXPECT_EQ(*seen.begin(), 0);
    EXPECT_EQ(*seen.rbegin(), samples - 1);
  }
}

TEST(Sampler, OrderDependsOnSeedAndEpochAlone) {
  const auto order = [](std::uint64_t seed, std::int64_t epoch, std::int64_t global, int rank) {
    const Sampler sampler(500, global, false, true, seed, rank, 4);
    std::vector<std::int64_t> all;
    for (std::int64_t position = 0; position < 500; ++position)
      all.push_back(sampler.sample(epoch, position));
    return all;
  };
  EXPECT_EQ(order(1, 0, 32, 0), order(1, 0, 100, 3));
  EXPECT_NE(order(1, 0, 32, 0), order(1, 1, 32, 0));
  EXPECT_NE(order(1, 0, 32, 0), order(2, 0, 32, 0));
}

TEST(Sampler, WithoutShuffleKeepsTheOrder) {
  const Sampler sampler(10, 4, false, false, 1);
  for (std::int64_t position = 0; position < 10; ++position)
    EXPECT_EQ(sampler.sample(5, position), position);
}

TEST(Sampler, RanksPartitionEachStep) {
  for (const int ranks : {1, 2, 3, 7}) {
    const Sampler first(103, 20, false, true, 1);
    for (std::int64_t step = 0; step < 12; ++step) {
      std::int64_t expected = first.place(step).global.begin;
      std::int64_t longest = 0;
      std::int64_t shortest = 20;
      for (int rank = 0; rank < ranks; ++rank) {
        const Sampler sampler(103, 20, false, true, 1, rank, ranks);
        const Range share = sampler.place(step).share;
        EXPECT_EQ(share.begin, expected);
        expected = share.end;
        EXPECT_LE(share.size(), sampler.largest_share());
        EXPECT_LE(share.size(), rank == 0 ? 20 : longest);  // never more than an earlier rank
        longest = std::max(longest, share.size());
        shortest = std::min(shortest, share.size());
      }
      EXPECT_EQ(expected, first.place(step).global.end);
      EXPECT_LE(longest - shortest, 1);
    }
  }
}

TEST(Sampler, TrainsTheTail) {
  const Sampler sampler(103, 20, false, true, 1);
  EXPECT_EQ(sampler.steps_per_epoch(), 6);
  EXPECT_EQ(sampler.samples_per_epoch(), 103);
  EXPECT_EQ(sampler.place(5).global.begin, 100);
  EXPECT_EQ(sampler.place(5).global.end, 103);
  EXPECT_EQ(sampler.place(6).epoch, 1);
  EXPECT_EQ(sampler.place(6).global.begin, 0);
}

TEST(Sampler, DropsTheTailOnRequest) {
  const Sampler sampler(103, 20, true, true, 1);
  EXPECT_EQ(sampler.steps_per_epoch(), 5);
  EXPECT_EQ(sampler.samples_per_epoch(), 100);
  EXPECT_EQ(sampler.place(5).epoch, 1);
  EXPECT_THAT(error_of(Exit::config, [] { Sampler(10, 20, true, true, 1); }),
              HasSubstr("the data has 10 samples and batch.global is 20"));
}

TEST(Sampler, ABatchLargerThanTheDataIsOneShortStep) {
  const Sampler sampler(10, 64, false, true, 1, 1, 4);
  EXPECT_EQ(sampler.steps_per_epoch(), 1);
  EXPECT_EQ(sampler.place(0).share.begin, 3);
  EXPECT_EQ(sampler.place(0).share.end, 6);
  EXPECT_EQ(sampler.largest_share(), 3);
}

TEST(Sampler, ABillionSamplesNeedNoMemory) {
  const Sampler sampler(1'000'000'000, 4096, false, true, 1);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const std::int64_t sample = sampler.sample(3, i * 999'983);
    EXPECT_GE(sample, 0);
    EXPECT_LT(sample, 1'000'000'000);
    seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(sampler.place(1'000'000).epoch, 1'000'000 / sampler.steps_per_epoch());
}

}  // namespace
}  // namespace trainer::data

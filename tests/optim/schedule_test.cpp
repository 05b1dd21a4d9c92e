#include "optim/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/errors.h"

namespace trainer::optim {
namespace {

using config::Length;
using Unit = Length::Unit;
using ::testing::HasSubstr;

constexpr Horizon kHorizon{
    .updates = 40, .updates_per_epoch = 10, .samples_per_update = 4, .tokens_per_sample = 0};

Length steps(double count) { return {count, Unit::steps}; }

// --- lengths -------------------------------------------------------------------------------------

TEST(ToUpdates, RoundsUpToWholeUpdates) {
  EXPECT_EQ(to_updates(steps(7), kHorizon), 7);
  EXPECT_EQ(to_updates({2, Unit::epochs}, kHorizon), 20);
  EXPECT_EQ(to_updates({0.25, Unit::epochs}, kHorizon), 3);
  EXPECT_EQ(to_updates({8, Unit::samples}, kHorizon), 2);
  EXPECT_EQ(to_updates({9, Unit::samples}, kHorizon), 3);
  EXPECT_EQ(to_updates(steps(0), kHorizon), 0);
}

TEST(ToUpdates, TakesAProductThatIsWholeButForRoundingAsWhole) {
  const Horizon horizon{.updates = 0, .updates_per_epoch = 100, .samples_per_update = 1};
  ASSERT_GT(0.07 * 100, 7.0);  // 7.000000000000001
  EXPECT_EQ(to_updates({0.07, Unit::epochs}, horizon), 7);
}

TEST(ToUpdates, KeepsAHugeLengthInRange) {
  EXPECT_GT(to_updates({1e300, Unit::epochs}, kHorizon), std::int64_t{1} << 60);
}

TEST(ToUpdates, RefusesTimesAndTokens) {
  const Error time = error_of([] { to_updates({60, Unit::seconds}, kHorizon); });
  EXPECT_EQ(time.code(), Exit::config);
  EXPECT_THAT(time.what(), HasSubstr("a time cannot be turned into updates"));
  const Error tokens = error_of([] { to_updates({60, Unit::tokens}, kHorizon); });
  EXPECT_EQ(tokens.code(), Exit::config);
  EXPECT_THAT(tokens.what(), HasSubstr("images have no tokens"));
}

TEST(ToUpdates, CountsTokensOfText) {
  Horizon horizon = kHorizon;
  horizon.tokens_per_sample = 32;  // an update takes 4 samples
  EXPECT_EQ(to_updates({1280, Unit::tokens}, horizon), 10);
  EXPECT_EQ(to_updates({1281, Unit::tokens}, horizon), 11);
}

// --- against PyTorch -----------------------------------------------------------------------------

// The configuration that stands for each case of tests/oracle/schedule.py.
config::Schedule config_of(const std::string& name) {
  if (name == "constant") return config::Constant{};
  if (name == "linear") return config::Linear{{}, 0.1};
  if (name == "cosine") return config::Cosine{{}, 0.01};
  if (name == "step") return config::Step{{}, steps(12), 0.3};
  if (name == "multistep") return config::Multistep{{}, {steps(25), steps(10), steps(33)}, 0.2};
  if (name == "one_cycle") return config::OneCycle{{}, 0.3, 1.0 / 20, 1.0 / (20 * 50)};
  const Length warmup = steps(8);
  if (name == "warmup_constant") return config::Constant{{warmup, 0.1, {}}};
  if (name == "warmup_linear") return config::Linear{{warmup, 0.25, {}}, 0.1};
  if (name == "warmup_cosine") return config::Cosine{{warmup, 0.1, {}}, 0.01};
  throw std::invalid_argument("no configuration for the golden case " + name);
}

TEST(Schedule, EqualsPyTorch) {
  std::ifstream file("golden/optim/schedules.json");
  const auto golden = nlohmann::json::parse(file);
  ASSERT_EQ(golden["length"], kHorizon.updates);
  const double lr = golden["lr"];
  ASSERT_EQ(golden["rates"].size(), 9U);
  for (const auto& [name, rates] : golden["rates"].items()) {
    const Schedule schedule(config_of(name), lr, kHorizon);
    ASSERT_GE(rates.size(), 40U) << name;
    for (std::size_t update = 0; update < rates.size(); ++update) {
      const double expected = rates[update];
      EXPECT_NEAR(schedule.at(static_cast<std::int64_t>(update)), expected, 1e-12 * expected)
          << name << " at update " << update;
    }
  }
}

// --- what PyTorch has no single scheduler for ----------------------------------------------------

TEST(Schedule, WarmsUpFromItsStartToTheFullRate) {
  const Schedule schedule(config::Constant{{steps(4), 0.2, {}}}, 1.0, kHorizon);
  EXPECT_DOUBLE_EQ(schedule.at(0), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(1), 0.4);
  EXPECT_DOUBLE_EQ(schedule.at(3), 0.8);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_EQ(schedule.length(), 4);
}

TEST(Schedule, StaysAtItsFinalRateAfterTheEnd) {
  const Length length = steps(20);
  const Schedule linear(config::Linear{{{}, 0, length}, 0.1}, 2.0, kHorizon);
  const Schedule cosine(config::Cosine{{{}, 0, length}, 0.1}, 2.0, kHorizon);
  const Schedule cycle(config::OneCycle{{{}, 0, length}, 0.3, 0.04, 0.1}, 2.0, kHorizon);
  for (const Schedule* schedule : {&linear, &cosine, &cycle}) {
    EXPECT_EQ(schedule->length(), 20);
    EXPECT_DOUBLE_EQ(schedule->at(20), 0.2);
    EXPECT_DOUBLE_EQ(schedule->at(21), 0.2);
    EXPECT_DOUBLE_EQ(schedule->at(1'000'000'000'000), 0.2);
  }
  EXPECT_GT(linear.at(19), 0.2);
}

TEST(Schedule, DropsAreCountedFromTheFirstUpdateWithAWarmupToo) {
  const Schedule schedule(config::Step{{steps(4), 0.0, {}}, steps(10), 0.5}, 1.0, kHorizon);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(9), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(10), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(20), 0.25);
}

TEST(Schedule, MultistepEndsWithItsLastDrop) {
  const Schedule schedule(config::Multistep{{}, {steps(5), steps(9)}, 0.5}, 1.0, kHorizon);
  EXPECT_EQ(schedule.length(), 9);
  EXPECT_DOUBLE_EQ(schedule.at(8), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(9), 0.25);
}

TEST(Schedule, WsdWarmsUpStaysAndDecays) {
  const Schedule schedule(config::Wsd{{steps(4), 0.0, {}}, steps(10), 0.2}, 1.0, kHorizon);
  EXPECT_DOUBLE_EQ(schedule.at(2), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(4), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(30), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(35), 0.6);
  EXPECT_DOUBLE_EQ(schedule.at(40), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(50), 0.2);
}

TEST(Schedule, WsdWithoutADecayStays) {
  const Schedule schedule(config::Wsd{}, 1.0, kHorizon);
  EXPECT_DOUBLE_EQ(schedule.at(0), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(100), 1.0);
}

// Degenerate lengths give finite rates.
TEST(Schedule, IsFiniteForTheShortestLengths) {
  for (const double length : {1.0, 2.0, 3.0}) {
    const config::ScheduleCommon common{{}, 0, steps(length)};
    const config::ScheduleCommon all_warmup{steps(length), 0, steps(length)};
    const std::vector<config::Schedule> schedules{
        config::Linear{common, 0.1},     config::Cosine{common, 0.1},
        config::Linear{all_warmup, 0.1}, config::Cosine{all_warmup, 0.1},
        config::OneCycle{common, 0.0},   config::OneCycle{common, 1.0 / length},
        config::OneCycle{common, 1.0},   config::Wsd{common, steps(length), 0.1}};
    for (const config::Schedule& config : schedules) {
      const Schedule schedule(config, 1.0, kHorizon);
      for (std::int64_t update = 0; update < 6; ++update) {
        EXPECT_GE(schedule.at(update), 0.0) << config.index() << " at " << update;
        EXPECT_LE(schedule.at(update), 1.0) << config.index() << " at " << update;
      }
    }
  }
}

// --- mistakes ------------------------------------------------------------------------------------

constexpr Horizon kTimed{
    .updates = 0, .updates_per_epoch = 10, .samples_per_update = 4, .tokens_per_sample = 0};

TEST(Schedule, NeedsALengthOfItsOwnInATimedRun) {
  for (const config::Schedule& config :
       {config::Schedule(config::Step{}), config::Schedule(config::Linear{}),
        config::Schedule(config::Cosine{}), config::Schedule(config::OneCycle{}),
        config::Schedule(config::Wsd{})}) {
    const Error error = error_of([&] { Schedule(config, 1.0, kTimed); });
    EXPECT_EQ(error.code(), Exit::config);
    EXPECT_THAT(error.what(), HasSubstr("schedule.length: auto follows train.length"));
  }
}

TEST(Schedule, ThatEndsByItselfNeedsNoLengthInATimedRun) {
  const Schedule drops(config::Multistep{{}, {{1, Unit::epochs}}, 0.5}, 1.0, kTimed);
  EXPECT_EQ(drops.length(), 10);
  EXPECT_DOUBLE_EQ(drops.at(1000), 0.5);
  const Schedule constant(config::Constant{}, 3.0, kTimed);
  EXPECT_EQ(constant.length(), 0);
  EXPECT_DOUBLE_EQ(constant.at(1000), 3.0);
}

TEST(Schedule, RefusesAWarmupOrDecayThatDoesNotFit) {
  const Error warmup = error_of([] {
    Schedule(config::Cosine{{steps(41), 0, {}}, 0}, 1.0, kHorizon);
  });
  EXPECT_EQ(warmup.code(), Exit::config);
  EXPECT_THAT(warmup.what(), HasSubstr("schedule.warmup: 41 updates do not fit in the schedule's "
                                       "length of 40 updates"));
  const Error both = error_of([] {
    Schedule(config::Wsd{{steps(20), 0, {}}, steps(21), 0}, 1.0, kHorizon);
  });
  EXPECT_EQ(both.code(), Exit::config);
  EXPECT_THAT(both.what(), HasSubstr("schedule.warmup and schedule.decay: 20 and 21 updates"));
}

TEST(Schedule, RefusesAWarmupOfOneCycle) {
  const Error error = error_of([] {
    Schedule(config::OneCycle{{steps(5), 0, {}}}, 1.0, kHorizon);
  });
  EXPECT_EQ(error.code(), Exit::config);
  EXPECT_THAT(error.what(), HasSubstr("schedule.warmup: one_cycle has a warm-up of its own"));
}

}  // namespace
}  // namespace trainer::optim

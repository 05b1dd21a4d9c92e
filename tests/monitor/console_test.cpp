#include "monitor/console.h"

#include <gmock/gmock.h>

#include "support.h"

namespace trainer::monitor {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kClear = "\r\x1b[K";

class ConsoleTest : public testing::Test {
 protected:
  double now_ = 100;
  std::size_t width_ = 0;
  std::vector<std::string> written_;

  Console console(const ConsoleOptions& options) {
    return Console(options, {[this] { return now_; },
                             [this](std::string_view text) { written_.emplace_back(text); },
                             [this] { return width_; }});
  }
};

TEST_F(ConsoleTest, PlainLinesAtMostOneASecondWithTheFirstAndTheLast) {
  {
    Console sink = console({.total_steps = 0});
    for (int step = 1; step <= 26; ++step, now_ += 0.125) sink.write(step_record(step, 0.5));
  }
  EXPECT_THAT(written_, ElementsAre("step 1  loss 0.5000\n", "step 9  loss 0.5000\n",
                                    "step 17  loss 0.5000\n", "step 25  loss 0.5000\n",
                                    "step 26  loss 0.5000\n"));
}

TEST_F(ConsoleTest, TheLastStepIsShownAtOnce) {
  Console sink = console({.total_steps = 3});
  for (int step = 1; step <= 3; ++step) sink.write(step_record(step, 0.5));
  EXPECT_THAT(written_, ElementsAre("step 1/3  loss 0.5000\n", "step 3/3  loss 0.5000\n"));
}

TEST_F(ConsoleTest, EveryFieldOfALine) {
  Console sink = console({.total_steps = 1000});
  Record record = step_record(500, 0.123456);
  record.add("epoch", std::int64_t{2});
  record.add("lr", 3e-4);
  record.add("samples_per_s", 3512.4);
  record.add("mem_peak", std::int64_t{3} << 30);
  sink.write(step_record(250, 1));
  now_ += 10;
  sink.write(record);
  EXPECT_EQ(written_.back(),
            "step 500/1000  epoch 2  loss 0.1235  lr 0.0003  3512 samples/s  mem 3.0 GiB  "
            "ETA 20.0s\n");
}

TEST_F(ConsoleTest, EtaIsFromTheRecentRate) {
  Console sink = console({.total_steps = 1000});
  for (int step = 1; step <= 10; ++step, now_ += 100) sink.write(step_record(step, 1));
  for (int step = 11; step <= 100; ++step, now_ += 1) sink.write(step_record(step, 1));
  EXPECT_THAT(written_.back(), HasSubstr("step 100/1000  loss 1.0000  ETA 15m00s"));
}

TEST_F(ConsoleTest, EtaOfATimedRun) {
  Console sink = console({.total_seconds = 600});
  now_ += 60;
  sink.write(step_record(7, 1));
  EXPECT_EQ(written_.back(), "step 7  loss 1.0000  ETA 9m00s\n");
}

TEST_F(ConsoleTest, ProgressIsRedrawnInPlaceAtMostTenTimesASecond) {
  {
    Console sink = console({.progress = true});
    for (int step = 1; step <= 9; ++step, now_ += 0.03125) sink.write(step_record(step, 0.5));
    EXPECT_THAT(written_, ElementsAre(std::string(kClear) + "step 1  loss 0.5000\r",
                                      std::string(kClear) + "step 5  loss 0.5000\r",
                                      std::string(kClear) + "step 9  loss 0.5000\r"));
    sink.write(step_record(10, 0.5));
    written_.clear();
  }
  EXPECT_THAT(written_, ElementsAre(std::string(kClear) + "step 10  loss 0.5000\r", "\n"));
}

TEST_F(ConsoleTest, ProgressIsCutToTheTerminal) {
  width_ = 10;
  Console sink = console({.progress = true});
  sink.write(step_record(1, 0.5));
  EXPECT_EQ(written_.at(0), std::string(kClear) + "step 1  l\r");
}

TEST_F(ConsoleTest, EvaluationsAreWholeLines) {
  Console plain = console({});
  plain.write(evaluation_record(5, 0.98765432));
  Console progress = console({.progress = true, .colour = true});
  progress.write(evaluation_record(5, 0.5));
  EXPECT_THAT(written_, ElementsAre("eval at step 5:  val/accuracy 0.98765\n",
                                    std::string(kClear) +
                                        "\x1b[1meval at step 5:  val/accuracy 0.5\x1b[0m\n"));
}

TEST_F(ConsoleTest, QuietSaysNothing) {
  {
    Console sink = console({.quiet = true});
    sink.write(step_record(1, 1));
    sink.write(evaluation_record(1, 1));
  }
  EXPECT_THAT(written_, IsEmpty());
}

TEST_F(ConsoleTest, WhatDoesNotApplyIsAbsent) {
  Console sink = console({});
  Record record;
  record.add("step", std::int64_t{4});
  sink.write(record);
  EXPECT_EQ(written_.at(0), "step 4\n");
}

TEST(ConsoleSink, WritesToStandardError) {
  testing::internal::CaptureStderr();
  console_sink({})->write(step_record(1, 0.5));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 1  loss 0.5000\n");
}

}  // namespace
}  // namespace trainer::monitor

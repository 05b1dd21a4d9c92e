#include "monitor/sinks.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "monitor/event_file.h"
#include "support.h"

namespace trainer::monitor {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

using Make = std::unique_ptr<Sink> (*)(const fs::path&, std::int64_t);

class Sinks : public Temporary {
 protected:
  fs::path jsonl_ = folder_ / "metrics.jsonl";
  fs::path csv_ = folder_ / "metrics.csv";

  static void write_steps(Make make, const fs::path& file, std::int64_t resumed, std::int64_t from,
                          std::int64_t to) {
    const std::unique_ptr<Sink> sink = make(file, resumed);
    for (std::int64_t step = from; step <= to; ++step) {
      sink->write(step_record(step, 1.0 / static_cast<double>(step)));
      if (step % 2 == 0) sink->write(evaluation_record(step, 0.5));
    }
    sink->flush();
  }
};

TEST(RecordTest, FindsByName) {
  const Record record = step_record(3, 0.25);
  ASSERT_NE(record.find("step"), nullptr);
  EXPECT_EQ(std::get<std::int64_t>(*record.find("step")), 3);
  EXPECT_EQ(std::get<double>(*record.find("loss")), 0.25);
  EXPECT_EQ(record.find("lr"), nullptr);
}

TEST_F(Sinks, JsonNumbersReadBackExactly) {
  const std::vector<double> numbers{
      0.1,  1.0 / 3, 1e-300, 1.7976931348623157e308, 5e-324,
      1e22, -0.0,    2.0,    123456789.125,          0.30000000000000004};
  Record record;
  record.add("step", std::int64_t{9007199254740993});
  for (std::size_t i = 0; i < numbers.size(); ++i) record.add("n" + std::to_string(i), numbers[i]);
  jsonl_sink(jsonl_, 0)->write(record);
  const auto read = nlohmann::json::parse(read_bytes(jsonl_));
  EXPECT_EQ(read.at("step").get<std::int64_t>(), 9007199254740993);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& number = read.at("n" + std::to_string(i));
    EXPECT_TRUE(number.is_number_float()) << numbers[i];
    EXPECT_EQ(number.get<double>(), numbers[i]);
    EXPECT_EQ(std::signbit(number.get<double>()), std::signbit(numbers[i]));
  }
}

TEST_F(Sinks, NumbersThatAreNotFinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Record record = step_record(1, std::nan(""));
  record.add("grad_norm", kInfinity);
  record.add("low", -kInfinity);
  jsonl_sink(jsonl_, 0)->write(record);
  csv_sink(csv_, 0)->write(record);
  EXPECT_EQ(read_bytes(jsonl_),
            "{\"step\": 1, \"loss\": \"nan\", \"grad_norm\": \"inf\", \"low\": \"-inf\"}\n");
  EXPECT_EQ(read_bytes(csv_), "step,loss,grad_norm,low\n1,nan,inf,-inf\n");
}

TEST_F(Sinks, JsonLines) {
  write_steps(jsonl_sink, jsonl_, 0, 1, 2);
  EXPECT_EQ(read_bytes(jsonl_),
            "{\"step\": 1, \"loss\": 1.0}\n{\"step\": 2, \"loss\": 0.5}\n"
            "{\"step\": 2, \"val/accuracy\": 0.5}\n");
}

TEST_F(Sinks, RecordsAreThereBeforeAFlush) {
  const std::unique_ptr<Sink> sink = jsonl_sink(jsonl_, 0);
  sink->write(step_record(1, 2));
  EXPECT_EQ(read_bytes(jsonl_), "{\"step\": 1, \"loss\": 2.0}\n");
}

TEST_F(Sinks, JsonLinesAreCutBackToTheResumedStep) {
  write_steps(jsonl_sink, jsonl_, 0, 1, 9);
  write_steps(jsonl_sink, jsonl_, 4, 5, 9);
  const std::string resumed = read_bytes(jsonl_);
  write_steps(jsonl_sink, jsonl_, 0, 1, 9);
  EXPECT_EQ(resumed, read_bytes(jsonl_));
}

TEST_F(Sinks, PartialLinesAndGarbageGo) {
  const std::string good = "{\"step\": 1, \"loss\": 1.0}\n";
  write_bytes(jsonl_, good + std::string(40, '\0') + "\n[3]\n{\"loss\": 1}\n{\"step\": \"x\"}\n" +
                          "{\"step\": 2, \"loss\": 0.5}\n{\"step\": 3, \"lo");
  jsonl_sink(jsonl_, 5)->write(step_record(6, 1));
  EXPECT_EQ(read_bytes(jsonl_),
            good + "{\"step\": 2, \"loss\": 0.5}\n{\"step\": 6, \"loss\": 1.0}\n");
}

TEST_F(Sinks, ResumedWithNoFileThere) {
  jsonl_sink(jsonl_, 5)->write(step_record(6, 1));
  csv_sink(csv_, 5)->write(step_record(6, 1));
  EXPECT_EQ(read_bytes(jsonl_), "{\"step\": 6, \"loss\": 1.0}\n");
  EXPECT_EQ(read_bytes(csv_), "step,loss\n6,1.0\n");
}

TEST_F(Sinks, CsvGetsWiderWithNewNames) {
  write_steps(csv_sink, csv_, 0, 1, 3);
  EXPECT_EQ(read_bytes(csv_),
            "step,loss,val/accuracy\n1,1.0,\n2,0.5,\n2,,0.5\n3,0.3333333333333333,\n");
}

TEST_F(Sinks, CsvNamesAreQuoted) {
  Record record = step_record(1, 2);
  record.add("a,\"b\"", 3.0);
  csv_sink(csv_, 0)->write(record);
  record.fields[0].second = std::int64_t{2};
  record.add("c", 4.0);
  csv_sink(csv_, 1)->write(record);
  EXPECT_EQ(read_bytes(csv_), "step,loss,\"a,\"\"b\"\"\",c\n1,2.0,3.0,\n2,2.0,3.0,4.0\n");
}

TEST_F(Sinks, CsvIsCutBackToTheResumedStep) {
  write_steps(csv_sink, csv_, 0, 1, 9);
  write_bytes(csv_, read_bytes(csv_) + "10,0.1");
  write_steps(csv_sink, csv_, 4, 5, 9);
  const std::string resumed = read_bytes(csv_);
  write_steps(csv_sink, csv_, 0, 1, 9);
  EXPECT_EQ(resumed, read_bytes(csv_));
}

TEST_F(Sinks, CsvWithoutAWholeHeaderBeginsAnew) {
  write_bytes(csv_, "step,lo");
  csv_sink(csv_, 4)->write(step_record(5, 1));
  EXPECT_EQ(read_bytes(csv_), "step,loss\n5,1.0\n");
}

// Steps of all events in the folder's event files, in the order in which they are read.
std::vector<std::int64_t> event_steps(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<std::int64_t> steps;
  for (const fs::path& file : files) {
    const std::string bytes = read_bytes(file);
    std::string_view rest = bytes;
    while (const auto event = next_record(rest)) steps.push_back(event_step(*event).value());
    EXPECT_TRUE(rest.empty()) << file;
  }
  return steps;
}

TEST_F(Sinks, EventFilesAreCutBackAndANewOneBegun) {
  write_steps(tensorboard_sink, folder_, 0, 1, 5);
  EXPECT_THAT(event_steps(folder_), ElementsAre(0, 1, 2, 2, 3, 4, 4, 5));
  const fs::path first = fs::directory_iterator(folder_)->path();
  EXPECT_TRUE(first.filename().string().starts_with("events.out.tfevents."));
  const std::string whole = read_bytes(first);
  write_bytes(first, whole.substr(0, whole.size() - 3));
  write_steps(tensorboard_sink, folder_, 3, 4, 5);
  EXPECT_THAT(event_steps(folder_), ElementsAre(0, 1, 2, 2, 3, 0, 4, 4, 5));
  write_steps(tensorboard_sink, folder_, 4, 5, 5);
  EXPECT_THAT(event_steps(folder_), ElementsAre(0, 1, 2, 2, 3, 0, 4, 4, 0, 5));
}

TEST_F(Sinks, ARunFromTheBeginningRemovesEarlierEvents) {
  write_steps(tensorboard_sink, folder_, 0, 1, 5);
  write_steps(tensorboard_sink, folder_, 0, 1, 1);
  EXPECT_THAT(event_steps(folder_), ElementsAre(0, 1));
}

TEST_F(Sinks, WhatCannotBeWrittenIsNamed) {
  EXPECT_THAT(error_of(Exit::storage, [&] { jsonl_sink(folder_ / "no" / "a.jsonl", 0); }),
              AllOf(HasSubstr("cannot open " + (folder_ / "no" / "a.jsonl").string()),
                    HasSubstr("No such file or directory")));
  EXPECT_THAT(error_of(Exit::storage, [&] { csv_sink(folder_, 0); }), HasSubstr("Is a directory"));
  EXPECT_THAT(error_of(Exit::storage, [&] { tensorboard_sink(folder_ / "no", 0); }),
              HasSubstr("No such file or directory"));
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{1024, before.rlim_max};
  const std::unique_ptr<Sink> sink = jsonl_sink(jsonl_, 0);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = error_of(Exit::storage, [&] {
    for (std::int64_t step = 1; step < 100; ++step) sink->write(step_record(step, 0.5));
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot write " + jsonl_.string() + ": File too large"),
                             HasSubstr("ulimit -f")));
  // What the failed write left behind does not hurt the next start.
  jsonl_sink(jsonl_, 1)->write(step_record(2, 1));
  EXPECT_EQ(read_bytes(jsonl_), "{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": 1.0}\n");
}

}  // namespace
}  // namespace trainer::monitor

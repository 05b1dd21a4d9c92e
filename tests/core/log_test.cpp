#include "core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"

namespace trainer {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("trainer-log-test-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    log::set_console(true);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

TEST_F(LogTest, WritesTimeLevelAndMessageToTheFileAppending) {
  const auto path = folder_ / "trainer.log";
  std::ofstream(path) << "an earlier run\n";
  log::set_console(false);
  log::add_file(path);
  log::info("step {} is no format string");
  log::warning("slow");
  log::error("broken");
  log::flush();
  const auto lines = lines_of(path);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0], "an earlier run");
  const std::string time = "[0-9]+-[0-9]+-[0-9]+T[0-9]+:[0-9]+:[0-9]+\\.[0-9]+";
  EXPECT_THAT(lines[1], MatchesRegex(time + " info step \\{\\} is no format string"));
  EXPECT_THAT(lines[2], MatchesRegex(time + " warning warning: slow"));
  EXPECT_THAT(lines[3], MatchesRegex(time + " error error: broken"));
}

TEST_F(LogTest, ConsoleOffKeepsWarningsOnStandardError) {
  testing::internal::CaptureStderr();
  log::set_console(false);
  log::info("hidden");
  log::warning("shown");
  log::set_console(true);
  log::info("shown too");
  log::flush();
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
  EXPECT_THAT(text, HasSubstr("warning: shown\n"));
  EXPECT_THAT(text, HasSubstr("shown too\n"));
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsAStorageError) {
  try {
    log::add_file(folder_);  // a folder
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::storage);
    EXPECT_THAT(error.what(), HasSubstr("cannot open the log file"));
    EXPECT_THAT(error.what(), HasSubstr(folder_.string()));
  }
}

TEST_F(LogTest, LosesNoLineOfManyThreadsWhileAFileIsAdded) {
  log::set_console(false);
  const auto first = folder_ / "first.log";
  log::add_file(first);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log::info("a line");
    });
  for (int i = 0; i < 5; ++i) log::add_file(folder_ / ("late" + std::to_string(i) + ".log"));
  for (std::thread& thread : threads) thread.join();
  log::flush();
  EXPECT_EQ(lines_of(first).size(), 2000U);
}

}  // namespace
}  // namespace trainer

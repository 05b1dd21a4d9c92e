#include "monitor/run_folder.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <barrier>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "support.h"

namespace trainer::monitor {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Runs are numbered under the working folder, so each test has one of its own.
class RunFolderTest : public Temporary {
 protected:
  RunFolderTest() { fs::current_path(folder_); }
  ~RunFolderTest() override { fs::current_path(before_); }

  static void make_run(const fs::path& folder) {
    fs::create_directories(folder);
    write_bytes(folder / "config.yaml", "name: x\n");
  }

 private:
  fs::path before_ = fs::current_path();
};

TEST_F(RunFolderTest, NumbersFollowEachOther) {
  for (const char* number : {"001", "002", "003"}) {
    const RunFolder run = RunFolder::open(std::nullopt, "cifar", false);
    EXPECT_EQ(run.path(), fs::path("runs/cifar") / number);
    EXPECT_FALSE(run.existed());
    EXPECT_EQ(run.checkpoints(), run.path() / "checkpoints");
    EXPECT_EQ(fs::read_symlink("runs/cifar/latest"), number);
  }
  fs::create_directories("runs/cifar/1200");
  fs::create_directories("runs/cifar/not-a-number");
  EXPECT_EQ(RunFolder::open(std::nullopt, "cifar", false).path(), "runs/cifar/1201");
}

TEST_F(RunFolderTest, ResumeTakesTheNewestRun) {
  EXPECT_EQ(RunFolder::open(std::nullopt, "a", true).path(), "runs/a/001");
  make_run("runs/a/001");
  make_run("runs/a/002");
  fs::create_directories("runs/a/003");  // a start that failed before it wrote anything
  const RunFolder run = RunFolder::open(std::nullopt, "a", true);
  EXPECT_EQ(run.path(), "runs/a/002");
  EXPECT_TRUE(run.existed());
  EXPECT_EQ(fs::read_symlink("runs/a/latest"), "002");
}

TEST_F(RunFolderTest, AGivenFolder) {
  const fs::path output = folder_ / "deep" / "er";
  {
    const RunFolder run = RunFolder::open(output, "a", false);
    EXPECT_EQ(run.path(), output);
    EXPECT_FALSE(run.existed());
  }
  EXPECT_FALSE(RunFolder::open(output, "a", true).existed());
  for (const char* sign : {"config.yaml", "metrics.jsonl"}) {
    write_bytes(output / sign, "");
    EXPECT_TRUE(RunFolder::open(output, "a", true).existed());
    EXPECT_THAT(
        error_of(Exit::usage, [&] { RunFolder::open(output, "a", false); }),
        AllOf(HasSubstr(output.string() + ": already holds a run"), HasSubstr("--resume auto")));
    fs::remove(output / sign);
  }
  fs::create_directory(output / "checkpoints");
  EXPECT_TRUE(RunFolder::open(output, "a", true).existed());
}

TEST_F(RunFolderTest, OneProcessAtATime) {
  std::optional<RunFolder> run = RunFolder::open(folder_ / "run", "a", false);
  EXPECT_THAT(error_of(Exit::storage, [&] { RunFolder::open(folder_ / "run", "a", true); }),
              AllOf(HasSubstr("process " + std::to_string(::getpid()) + " is writing this run"),
                    HasSubstr("--output")));
  RunFolder moved = std::move(*run);
  run.reset();
  EXPECT_THAT(error_of(Exit::storage, [&] { RunFolder::open(folder_ / "run", "a", true); }),
              HasSubstr("is writing this run"));
  { const RunFolder last = std::move(moved); }
  EXPECT_NO_THROW(RunFolder::open(folder_ / "run", "a", true));
}

TEST_F(RunFolderTest, ThoseThatStartAtOnceGetDifferentFolders) {
  constexpr int kThreads = 8;
  std::vector<fs::path> paths(kThreads);
  std::vector<std::thread> threads;
  std::barrier start(kThreads);
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      paths[static_cast<std::size_t>(i)] = RunFolder::open(std::nullopt, "a", false).path();
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<fs::path>(paths.begin(), paths.end()).size(), paths.size());
}

TEST_F(RunFolderTest, FilesAreReplacedWhole) {
  const RunFolder run = RunFolder::open(folder_ / "run", "a", false);
  run.write("summary.json", "first");
  run.write("summary.json", "second");
  EXPECT_EQ(read_bytes(run.path() / "summary.json"), "second");
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run.path()))
    names.insert(entry.path().filename().string());
  EXPECT_EQ(names, (std::set<std::string>{".lock", "summary.json"}));
  EXPECT_THAT(error_of(Exit::storage, [&] { run.write("no/summary.json", ""); }),
              HasSubstr("No such file or directory"));
}

TEST_F(RunFolderTest, FoldersThatCannotBeMade) {
  write_bytes(folder_ / "file", "");
  EXPECT_THAT(
      error_of(Exit::storage, [&] { RunFolder::open(folder_ / "file" / "run", "a", false); }),
      AllOf(HasSubstr("cannot make the folder " + (folder_ / "file" / "run").string()),
            HasSubstr("Not a directory")));
}

TEST_F(RunFolderTest, Environment) {
  ::setenv("SLURM_JOB_ID", "42", 1);
  ::setenv("SLURM_JWT", "secret", 1);
  ::setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", 1);
  const char* const arguments[] = {"trainer", "--config", "bad\xff.yaml"};
  const nlohmann::json found = environment(3, arguments);
  EXPECT_EQ(found.at("command"), nlohmann::json({"trainer", "--config", "bad\xef\xbf\xbd.yaml"}));
  EXPECT_EQ(found.at("folder"), fs::current_path().string());
  EXPECT_THAT(found.at("trainer").get<std::string>(),
              testing::MatchesRegex("[0-9]+[.][0-9]+[.][0-9]+"));
  EXPECT_EQ(found.at("variables").at("SLURM_JOB_ID"), "42");
  EXPECT_EQ(found.at("variables").at("PYTORCH_CUDA_ALLOC_CONF"), "expandable_segments:True");
  EXPECT_FALSE(found.at("variables").contains("SLURM_JWT"));
  EXPECT_GE(found.at("cpu").at("usable").get<int>(), 1);
  EXPECT_GT(found.at("memory_bytes").get<std::int64_t>(), 1 << 20);
  EXPECT_THAT(found.at("started").get<std::string>(),
              testing::MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[+-][0-9]{4}"));
  EXPECT_TRUE(found.at("git").is_null());
}

TEST_F(RunFolderTest, GitCommit) {
  const auto state = [] { return environment(0, nullptr).at("git"); };
  const std::string commit(40, 'a');
  fs::create_directories(".git/refs/heads");
  fs::create_directories("sub");
  write_bytes(".git/HEAD", "ref: refs/heads/main\n");
  EXPECT_EQ(state(), nlohmann::json({{"branch", "main"}}));
  write_bytes(".git/packed-refs", "# pack-refs\n" + commit + " refs/heads/main\n");
  fs::current_path("sub");
  EXPECT_EQ(state(), nlohmann::json({{"branch", "main"}, {"commit", commit}}));
  write_bytes("../.git/refs/heads/main", std::string(40, 'b') + "\n");
  EXPECT_EQ(state().at("commit"), std::string(40, 'b'));
  write_bytes("../.git/HEAD", commit + "\n");
  EXPECT_EQ(state(), nlohmann::json({{"commit", commit}}));

  fs::create_directories("../.git/worktrees/w");
  write_bytes("../.git/worktrees/w/HEAD", "ref: refs/heads/main\n");
  write_bytes("../.git/worktrees/w/commondir", "../..\n");
  write_bytes(".git", "gitdir: ../.git/worktrees/w\n");
  EXPECT_EQ(state().at("commit"), std::string(40, 'b'));
}

}  // namespace
}  // namespace trainer::monitor

#include "checkpoint/store.h"

#include <ATen/ops/full.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <thread>

#include "support.h"

extern char** environ;

namespace trainer::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A model and an optimiser with tensors, and a schedule with values alone.
struct SmallRun {
  Part model{State{{{"weight", patterned({2, 3}, at::kFloat)},
                    {"running", patterned({4}, at::kDouble)},
                    {"count", patterned({}, at::kLong)}},
                   nlohmann::json::object()}};
  Part optim{State{{{"exp_avg", patterned({2, 3}, at::kBFloat16)}}, {{"updates", 12}}}};
  Part schedule{State{{}, {{"last", 0.1}, {"best", -kInfinity}, {"list", {1, kInfinity}}}}};

  Parts parts() { return {{"model", &model}, {"optim", &optim}, {"schedule", &schedule}}; }
  void fill(double value) { model.held.tensors[0].value.fill_(value); }
};

class StoreTest : public Temporary {
 protected:
  fs::path checkpoints_ = folder_ / "checkpoints";
  SmallRun run_;

  StoreOptions options(std::int64_t keep = 3) const { return {checkpoints_, keep}; }
  void save(const std::vector<std::int64_t>& steps) {
    Store store(options(1000));
    for (const std::int64_t step : steps) {
      run_.fill(static_cast<double>(step));
      store.save(step, run_.parts(), nlohmann::json::object());
    }
    store.wait();
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(checkpoints_))
      names.push_back(entry.path().filename().string());
    return names;
  }
  static double filling(const Loaded& loaded) {
    return loaded.part("model").tensors.at(0).value.flatten()[0].item<double>();
  }
  std::int64_t newest_step() const {
    const std::optional<Loaded> loaded = load_newest(checkpoints_);
    return loaded ? loaded->step : -1;
  }
};

TEST_F(StoreTest, EverythingReadsBack) {
  {
    Store store(options());
    store.save(500, run_.parts(), {{"epoch", 2}, {"seeds", {1, 2}}, {"best", 0.1}});
  }
  const std::optional<Loaded> loaded = load_newest(checkpoints_);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->step, 500);
  EXPECT_EQ(loaded->path, checkpoints_ / "step-000500");
  EXPECT_EQ(loaded->values.at("step"), 500);
  EXPECT_EQ(loaded->values.at("epoch"), 2);
  EXPECT_EQ(loaded->values.at("seeds"), nlohmann::json({1, 2}));
  EXPECT_EQ(loaded->values.at("best").get<double>(), 0.1);
  for (const auto& [name, part] : run_.parts()) {
    const State expected = part->state();
    const State read = loaded->part(name);
    EXPECT_EQ(read.values, expected.values) << name;
    ASSERT_EQ(read.tensors.size(), expected.tensors.size()) << name;
    for (std::size_t i = 0; i < read.tensors.size(); ++i) {
      EXPECT_EQ(read.tensors[i].name, expected.tensors[i].name);
      expect_same(read.tensors[i].value, expected.tensors[i].value, expected.tensors[i].name);
    }
  }
  EXPECT_EQ(loaded->part("schedule").values.at("best").get<double>(), -kInfinity);
}

TEST_F(StoreTest, NotANumberReadsBack) {
  run_.schedule.held.values["best"] = std::nan("");
  save({1});
  EXPECT_TRUE(
      std::isnan(load_newest(checkpoints_)->part("schedule").values.at("best").get<double>()));
}

TEST_F(StoreTest, FilesOfACheckpoint) {
  save({7});
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoints_ / "step-000007"))
    names.push_back(entry.path().filename().string());
  EXPECT_THAT(names, UnorderedElementsAre("model.safetensors", "optim.safetensors", "state.json",
                                          "manifest.json"));
  const auto manifest =
      nlohmann::json::parse(read_bytes(checkpoints_ / "step-000007" / "manifest.json"));
  EXPECT_EQ(manifest.at("version"), 1);
  const auto& state = manifest.at("files").at("state.json");
  EXPECT_EQ(state.at("size"), fs::file_size(checkpoints_ / "step-000007" / "state.json"));
  EXPECT_EQ(state.at("xxh3").get<std::string>().size(), 16U);
}

TEST(Interop, WritesACheckpointForPython) {
  const char* folder = std::getenv("TRAINER_INTEROP_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "run by interop_test.py, which names the folder";
  SmallRun run;
  Store store({fs::path(folder) / "checkpoints"});
  store.save(7, run.parts(), nlohmann::json::object());
}

TEST_F(StoreTest, StateIsThatOfTheCall) {
  Store store(options());
  for (int step = 1; step <= 5; ++step) {
    run_.fill(step);
    run_.schedule.held.values["last"] = step;
    store.save(step, run_.parts(), nlohmann::json::object());
    run_.fill(-1);
    run_.schedule.held.values["last"] = -1;
  }
  store.wait();
  for (int step = 3; step <= 5; ++step) {
    const Loaded loaded = load_checkpoint(checkpoints_ / ("step-00000" + std::to_string(step)));
    EXPECT_EQ(filling(loaded), step);
    EXPECT_EQ(loaded.part("schedule").values.at("last"), step);
  }
}

TEST_F(StoreTest, NoneAtAll) {
  EXPECT_FALSE(load_newest(checkpoints_));
  fs::create_directories(checkpoints_ / ".tmp-step-000004-1");
  fs::create_directories(checkpoints_ / "notes");
  EXPECT_FALSE(load_newest(checkpoints_));
}

TEST_F(StoreTest, NewestIsByNumber) {
  save({999'999, 1'000'000});
  EXPECT_EQ(newest_step(), 1'000'000);
}

TEST_F(StoreTest, KeepsTheNewestAndTheBest) {
  Store store(options(2));
  for (int step = 1; step <= 5; ++step)
    store.save(step, run_.parts(), nlohmann::json::object(), step <= 2);
  store.wait();
  EXPECT_THAT(entries(), UnorderedElementsAre("step-000002", "step-000004", "step-000005", "best"));
  EXPECT_EQ(fs::read_symlink(checkpoints_ / "best"), "step-000002");
  EXPECT_EQ(load_checkpoint(checkpoints_ / "best").step, 2);
  store.save(6, run_.parts(), nlohmann::json::object(), true);
  store.wait();
  EXPECT_THAT(entries(), UnorderedElementsAre("step-000005", "step-000006", "best"));
  EXPECT_EQ(load_checkpoint(checkpoints_ / "best").step, 6);
}

TEST_F(StoreTest, SavingAStepAgainReplacesIt) {
  save({4, 5});
  run_.fill(77);
  Store store(options());
  store.save(5, run_.parts(), nlohmann::json::object());
  store.wait();
  EXPECT_EQ(filling(*load_newest(checkpoints_)), 77);
  EXPECT_THAT(entries(), UnorderedElementsAre("step-000004", "step-000005"));
}

TEST_F(StoreTest, StepsAfterOneResumedFromAreSetAside) {
  {
    Store store(options());
    store.save(4, run_.parts(), nlohmann::json::object());
    store.save(8, run_.parts(), nlohmann::json::object(), true);
  }
  Store store(options(1));
  store.save(6, run_.parts(), nlohmann::json::object());
  store.wait();
  EXPECT_THAT(entries(), UnorderedElementsAre("step-000006", "superseded-step-000008"));
  EXPECT_EQ(newest_step(), 6);
}

TEST_F(StoreTest, LeftoversOfAKilledWriteAreRemoved) {
  save({4});
  fs::create_directories(checkpoints_ / ".tmp-step-000005-123");
  write_bytes(checkpoints_ / ".tmp-step-000005-123" / "model.safetensors", "half");
  EXPECT_EQ(newest_step(), 4);
  const Store store(options());
  EXPECT_THAT(entries(), ElementsAre("step-000004"));
}

TEST_F(StoreTest, KilledBetweenTheRenamesOfAReplacement) {
  save({4, 5});
  fs::rename(checkpoints_ / "step-000005", checkpoints_ / ".old-step-000005-123");
  EXPECT_EQ(newest_step(), 5);
  { const Store store(options()); }
  EXPECT_THAT(entries(), UnorderedElementsAre("step-000004", "step-000005"));
  EXPECT_EQ(newest_step(), 5);
}

TEST_F(StoreTest, KilledBeforeTheReplacedOneWasRemoved) {
  save({5});
  fs::copy(checkpoints_ / "step-000005", checkpoints_ / ".old-step-000005-123");
  fs::remove(checkpoints_ / ".old-step-000005-123" / "manifest.json");
  EXPECT_EQ(newest_step(), 5);
  const Store store(options());
  EXPECT_THAT(entries(), ElementsAre("step-000005"));
}

TEST_F(StoreTest, ABadNewestFallsBackWithAWarning) {
  for (const char* file :
       {"model.safetensors", "optim.safetensors", "state.json", "manifest.json"}) {
    save({4, 5});
    const fs::path path = checkpoints_ / "step-000005" / file;
    const std::string whole = read_bytes(path);
    for (const std::size_t size : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
      write_bytes(path, whole.substr(0, size));
      testing::internal::CaptureStderr();
      EXPECT_EQ(newest_step(), 4) << file << " cut to " << size;
      EXPECT_THAT(testing::internal::GetCapturedStderr(),
                  AllOf(HasSubstr("passing over the checkpoint step-000005: "), HasSubstr(file)));
    }
    fs::remove(path);
    testing::internal::CaptureStderr();
    EXPECT_EQ(newest_step(), 4) << file << " removed";
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr(file), HasSubstr("No such file or directory")));
  }
}

TEST_F(StoreTest, EveryFlippedBitIsFound) {
  save({5});
  const fs::path checkpoint = checkpoints_ / "step-000005";
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    for (std::size_t byte = 0; byte < entry.file_size(); ++byte) {
      flip_bit(entry.path(), byte, byte % 8);
      EXPECT_THROW(load_checkpoint(checkpoint), Error) << entry.path() << " byte " << byte;
      flip_bit(entry.path(), byte, byte % 8);
    }
  }
  EXPECT_EQ(load_checkpoint(checkpoint).step, 5);
}

TEST_F(StoreTest, AllBad) {
  save({4, 5});
  fs::remove(checkpoints_ / "step-000004" / "manifest.json");
  write_bytes(checkpoints_ / "step-000005" / "state.json", "{}");
  EXPECT_THAT(storage_error([&] { load_newest(checkpoints_); }),
              AllOf(HasSubstr("no checkpoint in " + checkpoints_.string() + " can be used:"),
                    HasSubstr("step-000005/state.json: has 2 bytes where the manifest says"),
                    HasSubstr("step-000004/manifest.json: cannot be read"),
                    HasSubstr("give --resume the path")));
}

TEST_F(StoreTest, MessagesOfOneCheckpoint) {
  save({5});
  const fs::path checkpoint = checkpoints_ / "step-000005";
  EXPECT_THAT(storage_error([&] { load_checkpoint(checkpoints_ / "step-000009"); }),
              AllOf(HasSubstr("step-000009 cannot be used"), HasSubstr("No such file")));
  EXPECT_THAT(storage_error([&] { load_checkpoint(checkpoint).part("scaler"); }),
              AllOf(HasSubstr("holds no state of scaler"), HasSubstr("model, optim, schedule")));
  std::string model = read_bytes(checkpoint / "model.safetensors");
  model.back() = static_cast<char>(model.back() ^ 1);
  write_bytes(checkpoint / "model.safetensors", model);
  EXPECT_THAT(storage_error([&] { load_checkpoint(checkpoint); }),
              HasSubstr("model.safetensors: its contents are not those that were written (XXH3 "));
  write_bytes(checkpoint / "manifest.json", R"({"version": 2})");
  EXPECT_THAT(storage_error([&] { load_checkpoint(checkpoint); }),
              HasSubstr("version 2 is not known"));
}

TEST_F(StoreTest, FolderThatCannotBeMade) {
  write_bytes(folder_ / "file", "");
  EXPECT_THAT(storage_error([&] { Store({folder_ / "file" / "checkpoints"}); }),
              AllOf(HasSubstr("cannot write " + (folder_ / "file" / "checkpoints").string()),
                    HasSubstr("Not a directory")));
}

TEST_F(StoreTest, MistakesOfTheProgram) {
  EXPECT_THROW(Store(options(0)), std::invalid_argument);
  Store store(options());
  const auto none = nlohmann::json::object();
  EXPECT_THROW(store.save(1, {{"a/b", &run_.model}}, none), std::invalid_argument);
  EXPECT_THROW(store.save(1, {{"a", &run_.model}, {"a", &run_.optim}}, none),
               std::invalid_argument);
  EXPECT_THROW(store.save(1, run_.parts(), {{"model", 1}}), std::invalid_argument);
  store.wait();
  EXPECT_TRUE(entries().empty());
}

// The largest file this process may write, while it lives; a longer one is EFBIG.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(StoreTest, AFailedWriteIsRethrownAndLeavesTheOthersIntact) {
  save({4});
  run_.model.held.tensors.push_back({"large", at::full({1 << 20}, 1.0, at::kFloat)});
  Store store(options());
  {
    const FileSizeLimit limit(1 << 20);
    store.save(5, run_.parts(), nlohmann::json::object());
    const std::string message = storage_error([&] { store.wait(); });
    EXPECT_THAT(message, AllOf(HasSubstr("cannot write " + (checkpoints_ / "step-000005").string()),
                               HasSubstr("File too large (4.0 MiB needed, "), HasSubstr(" free)"),
                               HasSubstr("the previous checkpoint step-000004 is intact")));
    EXPECT_THAT(entries(), ElementsAre("step-000004"));
    EXPECT_NO_THROW(store.wait()) << "a failure is told once";

    store.save(6, run_.parts(), nlohmann::json::object());
    EXPECT_THAT(storage_error([&] { store.save(7, run_.parts(), nlohmann::json::object()); }),
                HasSubstr("step-000006"));
  }
  store.save(8, run_.parts(), nlohmann::json::object());
  store.wait();
  EXPECT_THAT(entries(), UnorderedElementsAre("step-000004", "step-000008"));
}

TEST_F(StoreTest, AFailedReplacementKeepsTheFirst) {
  save({4});
  run_.model.held.tensors.push_back({"large", at::full({1 << 20}, 1.0, at::kFloat)});
  Store store(options());
  const FileSizeLimit limit(1 << 20);
  store.save(4, run_.parts(), nlohmann::json::object());
  EXPECT_THAT(storage_error([&] { store.wait(); }), HasSubstr("step-000004 is intact"));
  EXPECT_EQ(newest_step(), 4);
}

TEST_F(StoreTest, TheDestructorLogsAFailure) {
  run_.model.held.tensors.push_back({"large", at::full({1 << 20}, 1.0, at::kFloat)});
  testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(1 << 20);
    Store store(options());
    store.save(5, run_.parts(), nlohmann::json::object());
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("error: cannot write"), HasSubstr("there is no earlier checkpoint")));
}

struct Unmount {
  fs::path folder;
  ~Unmount() { ::umount2(folder.c_str(), MNT_DETACH); }
};

TEST_F(StoreTest, AFullDisk) {
  fs::create_directories(checkpoints_);
  if (::mount("tmpfs", checkpoints_.c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "may not mount a small file system: " << std::strerror(errno);
  const Unmount unmount{checkpoints_};
  save({4});
  run_.model.held.tensors.push_back({"large", at::full({1 << 20}, 1.0, at::kFloat)});
  {
    Store store(options());
    store.save(5, run_.parts(), nlohmann::json::object());
    EXPECT_THAT(
        storage_error([&] { store.wait(); }),
        AllOf(HasSubstr("No space left on device (4.0 MiB needed, "), HasSubstr(" KiB free)"),
              HasSubstr("free some space, lower checkpoint.keep, or give an --output on another"),
              HasSubstr("the previous checkpoint step-000004 is intact")));
  }
  EXPECT_EQ(newest_step(), 4);
}

// Runs in a process of its own, which KilledAtAnyMoment kills.
TEST(KilledStore, DISABLED_SavesForEver) {
  const char* folder = std::getenv("TRAINER_KILL_FOLDER");
  if (folder == nullptr) GTEST_SKIP() << "run by StoreTest.KilledAtAnyMoment";
  SmallRun run;
  Store store({folder, 2});
  for (std::int64_t step = 1;; ++step) {
    run.fill(static_cast<double>(step % 100));
    store.save(1 + step % 100, run.parts(), nlohmann::json::object(), step % 3 == 0);
  }
}

pid_t start_saving(const fs::path& folder) {
  ::setenv("TRAINER_KILL_FOLDER", folder.c_str(), 1);
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=KilledStore.*";
  std::string disabled = "--gtest_also_run_disabled_tests";
  char* const arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, "/proc/self/exe", &files, nullptr, arguments, environ), 0);
  ::posix_spawn_file_actions_destroy(&files);
  return child;
}

TEST_F(StoreTest, KilledAtAnyMoment) {
  for (int round = 0; round < 3; ++round) {
    const pid_t child = start_saving(checkpoints_);
    ASSERT_GT(child, 0);
    while (!fs::exists(checkpoints_ / "step-000003") && ::waitpid(child, nullptr, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(1700 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);

    const std::optional<Loaded> loaded = load_newest(checkpoints_);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(filling(*loaded), static_cast<double>((loaded->step + 99) % 100));
    { const Store store(options()); }
    EXPECT_THAT(entries(), testing::Each(Not(testing::StartsWith("."))));
    EXPECT_EQ(newest_step(), loaded->step);
  }
}

}  // namespace
}  // namespace trainer::checkpoint

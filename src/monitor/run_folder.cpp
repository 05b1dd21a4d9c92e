#include "monitor/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "monitor/files.h"

namespace trainer::monitor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockFile = ".lock";
constexpr const char* kLatest = "latest";

bool holds_run(const fs::path& folder) {
  static constexpr std::array<const char*, 3> kSigns{"config.yaml", "metrics.jsonl", "checkpoints"};
  std::error_code ignored;
  return std::any_of(kSigns.begin(), kSigns.end(),
                     [&](const char* sign) { return fs::exists(folder / sign, ignored); });
}

// The number of a folder named by digits alone, else 0.
int number_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  int number = 0;
  const auto [stop, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && stop == name.data() + name.size();
  return whole && number > 0 ? number : 0;
}

std::vector<fs::path> numbered_folders(const fs::path& base) {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(base))
    if (number_of(entry.path()) > 0) folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end(),
            [](const fs::path& a, const fs::path& b) { return number_of(a) < number_of(b); });
  return folders;
}

// Two processes that start at once get two numbers: mkdir tells them apart.
fs::path make_next(const fs::path& base) {
  const std::vector<fs::path> taken = numbered_folders(base);
  for (int number = taken.empty() ? 1 : number_of(taken.back()) + 1;; ++number) {
    std::array<char, 16> name{};
    std::snprintf(name.data(), name.size(), "%03d", number);
    fs::path folder = base / name.data();
    if (::mkdir(folder.c_str(), 0777) == 0) return folder;
    if (errno != EEXIST) throw_storage_error("make the folder", folder, errno);
  }
}

fs::path choose_folder(const std::optional<fs::path>& output, const std::string& name,
                       bool resume) {
  fs::path base = output ? *output : fs::path("runs") / name;
  std::error_code failure;
  fs::create_directories(base, failure);
  if (failure) throw_storage_error("make the folder", base, failure.value());
  if (output) return base;
  if (resume) {
    const std::vector<fs::path> folders = numbered_folders(base);
    const auto newest = std::find_if(folders.rbegin(), folders.rend(), holds_run);
    if (newest != folders.rend()) return *newest;
  }
  return make_next(base);
}

void link_latest(const fs::path& folder) {
  const fs::path link = folder.parent_path() / kLatest;
  const fs::path temporary =
      folder.parent_path() / (std::string(".latest-") + std::to_string(::getpid()));
  std::error_code failure;
  fs::remove(temporary, failure);
  fs::create_symlink(folder.filename(), temporary, failure);
  if (!failure) fs::rename(temporary, link, failure);
  if (failure) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    log::warning("cannot link " + link.string() + " to this run: " + failure.message());
  }
}

std::string holder(int lock) {
  std::array<char, 32> text{};
  const ssize_t size = ::pread(lock, text.data(), text.size() - 1, 0);
  const std::string process(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return process.empty() ? "another process" : "process " + process;
}

// Returns the descriptor that holds the lock; the kernel lets go of it when the process ends,
// however it ends.
int lock_folder(const fs::path& folder) {
  const fs::path path = folder / kLockFile;
  const int lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock < 0) throw_storage_error("open", path, errno);
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error == EWOULDBLOCK) {
      const std::string process = holder(lock);
      ::close(lock);
      throw Error(Exit::storage, folder.string() + ": " + process +
                                     " is writing this run; wait for it to end, or give another "
                                     "--output");
    }
    log::warning(folder.string() + ": its file system has no locks (" +
                 std::generic_category().message(error) +
                 "); take care that no other process writes this run");
  }
  const std::string process = std::to_string(::getpid());
  if (::ftruncate(lock, 0) != 0 ||
      ::pwrite(lock, process.data(), process.size(), 0) != static_cast<ssize_t>(process.size())) {
    const int error = errno;
    ::close(lock);
    throw_storage_error("write", path, error);
  }
  return lock;
}

}  // namespace

RunFolder RunFolder::open(const std::optional<fs::path>& output, const std::string& name,
                          bool resume) {
  try {
    const fs::path folder = choose_folder(output, name, resume);
    const int lock = lock_folder(folder);
    RunFolder run(folder, holds_run(folder), lock);
    if (run.existed() && !resume)
      throw Error(Exit::usage, folder.string() +
                                   ": already holds a run; continue it with --resume auto, or give "
                                   "another --output");
    if (!output) link_latest(folder);
    return run;
  } catch (const fs::filesystem_error& failure) {
    throw_storage_error("list", failure.path1(), failure.code().value());
  }
}

RunFolder::RunFolder(fs::path path, bool existed, int lock)
    : path_(std::move(path)), existed_(existed), lock_(lock) {}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::move(other.path_)),
      existed_(other.existed_),
      lock_(std::exchange(other.lock_, -1)) {}

RunFolder::~RunFolder() {
  if (lock_ >= 0) ::close(lock_);
}

void RunFolder::write(const std::string& file, const std::string& text) const {
  replace_file(path_ / file, [&](AppendFile& output) { output.append(text); });
}

}  // namespace trainer::monitor

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "monitor/event_file.h"
#include "monitor/files.h"
#include "monitor/sinks.h"

namespace trainer::monitor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "events.out.tfevents.";

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(kPrefix)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_storage_error("read", path, errno);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Keeps the events of steps <= `step`, up to the first damaged record: readers stop there too.
void cut_back(const fs::path& path, std::int64_t step) {
  const std::string all = read_file(path);
  std::string kept;
  std::string_view rest = all;
  while (const auto event = next_record(rest)) {
    const std::optional<std::int64_t> of = event_step(*event);
    if (of && *of <= step) kept += framed(*event);
  }
  if (kept.size() == all.size()) return;
  replace_file(path, [&](AppendFile& file) { file.append(kept); });
}

void clear_earlier_files(const fs::path& folder, std::int64_t resumed_step) {
  for (const fs::path& path : event_files(folder)) {
    if (resumed_step > 0)
      cut_back(path, resumed_step);
    else
      fs::remove(path);
  }
}

// TensorBoard reads the files of a folder in the order of their names: the time comes first, and
// `ordinal` tells files of the same second apart.
fs::path new_file_name(const fs::path& folder, std::size_t ordinal) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%010lld.%03zu.", static_cast<long long>(wall_time()),
                ordinal);
  return folder /
         (std::string(kPrefix) + text.data() + host.data() + "." + std::to_string(::getpid()));
}

class TensorboardSink : public Sink {
 public:
  explicit TensorboardSink(const fs::path& path) : file_(path, AppendFile::Mode::create) {
    file_.append(framed(version_event(wall_time())));
  }
  void write(const Record& record) override {
    file_.append(framed(scalar_event(wall_time(), record)));
  }
  void flush() override {}  // each record goes to the kernel at once

 private:
  AppendFile file_;
};

}  // namespace

std::unique_ptr<Sink> tensorboard_sink(const fs::path& folder, std::int64_t resumed_step) {
  try {
    clear_earlier_files(folder, resumed_step);
    return std::make_unique<TensorboardSink>(new_file_name(folder, event_files(folder).size()));
  } catch (const fs::filesystem_error& failure) {
    throw_storage_error("list or remove event files of", folder, failure.code().value());
  }
}

}  // namespace trainer::monitor

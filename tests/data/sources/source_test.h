// Shared by the tests of sources and of the tools that use them.
#pragma once

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.h"
#include "data/sources/files.h"
#include "support/errors.h"
#include "support/files.h"

namespace trainer::data {

// A folder for each test, in which the user's cache folder is too.
class SourceTest : public Temporary {
 protected:
  SourceTest() {
    if (const char* value = ::getenv("XDG_CACHE_HOME")) before_ = value;
    ::setenv("XDG_CACHE_HOME", (folder_ / ".cache").c_str(), 1);
  }
  ~SourceTest() override {
    if (before_)
      ::setenv("XDG_CACHE_HOME", before_->c_str(), 1);
    else
      ::unsetenv("XDG_CACHE_HOME");
  }

  std::filesystem::path write(const std::string& name, const std::string& bytes) const {
    std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    write_bytes(path, bytes);
    return path;
  }

  // Sets the time at which a file or folder was changed.
  static void set_changed(const std::filesystem::path& path, std::int64_t seconds) {
    const struct timespec time { seconds, 0 };
    const std::array<struct timespec, 2> times{time, time};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0) << path;
  }

  // The index files in the cache folder.
  std::vector<std::filesystem::path> indexes() const {
    std::vector<std::filesystem::path> files;
    if (!std::filesystem::exists(folder_ / ".cache" / "trainer")) return files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / ".cache" / "trainer"))
      files.push_back(entry.path());
    return files;
  }

 private:
  std::optional<std::string> before_;
};

// Samples that a test sets. Counts how often each is fetched.
class MemorySource : public Source {
 public:
  struct Sample {
    std::string bytes;
    std::int64_t label = 0;
    float weight = 1;
    int height = 0, width = 0, channels = 0;  // of pixels
  };
  MemorySource(std::vector<Sample> samples, std::vector<std::string> names)
      : fetches(samples.size()), samples_(std::move(samples)), names_(std::move(names)) {}

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t classes() const override { return names_.empty() ? 3 : std::ssize(names_); }
  bool encoded() const override { return samples_[0].channels == 0; }
  int channels() const override { return encoded() ? 3 : samples_[0].channels; }
  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    const Sample& sample = at(index);
    ++fetches[static_cast<std::size_t>(index)];
    if (sample.bytes == "broken") throw Error(Exit::data, sample_name(index) + ": broken");
    buffer.assign(sample.bytes.begin(), sample.bytes.end());
    return {buffer, sample.height, sample.width, sample.channels};
  }
  std::int64_t label(std::int64_t index) const override { return at(index).label; }
  float weight(std::int64_t index) const override { return at(index).weight; }
  bool weighted() const override {
    return std::any_of(samples_.begin(), samples_.end(),
                       [](const Sample& sample) { return sample.weight != 1.0F; });
  }
  std::string sample_name(std::int64_t index) const override {
    return "sample " + std::to_string(index) + " of memory";
  }
  std::string describe() const override { return "memory"; }
  std::uint64_t fingerprint() const override { return 17; }

  mutable std::vector<std::atomic<int>> fetches;

 private:
  const Sample& at(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  std::vector<Sample> samples_;
  std::vector<std::string> names_;
};

inline std::string fetched(const Source& source, std::int64_t index) {
  std::vector<std::uint8_t> buffer;
  return std::string(as_text(source.fetch(index, buffer).bytes));
}

inline std::string content(const std::filesystem::path& file) {
  std::vector<std::uint8_t> buffer;
  read_file(file.string(), buffer);
  return std::string(as_text(buffer));
}

// Equal samples in equal order: content, labels, names of classes and weights.
inline void expect_same_samples(const Source& got, const Source& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  EXPECT_EQ(got.classes(), wanted.classes());
  EXPECT_EQ(got.class_names(), wanted.class_names());
  EXPECT_EQ(got.weighted(), wanted.weighted());
  for (std::int64_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(fetched(got, i), fetched(wanted, i)) << wanted.sample_name(i);
    EXPECT_EQ(got.label(i), wanted.label(i)) << wanted.sample_name(i);
    EXPECT_EQ(got.weight(i), wanted.weight(i)) << wanted.sample_name(i);
  }
}

}  // namespace trainer::data

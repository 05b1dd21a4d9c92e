// CIFAR-10 and CIFAR-100 in their binary version: records of one (fine) or two (coarse, fine) label
// bytes and 3 planes of 32x32 pixels.
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "data/sources/files.h"
#include "data/sources/sources.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSide = 32;
constexpr std::size_t kPlane = kSide * kSide;
constexpr std::size_t kPixels = 3 * kPlane;

// What the publisher's archive holds for one split.
struct Layout {
  std::vector<std::string> files;
  std::size_t records;      // in each file
  std::size_t label_bytes;  // the last of them is the label
  std::string names;        // text file of class names, one a line
};

Layout layout_of(const config::Cifar& config) {
  const bool train = config.split == config::Split::train;
  if (config.classes == 100)
    return {{train ? "train.bin" : "test.bin"}, train ? 50000u : 10000u, 2, "fine_label_names.txt"};
  if (!train) return {{"test_batch.bin"}, 10000, 1, "batches.meta.txt"};
  return {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
           "data_batch_5.bin"},
          10000,
          1,
          "batches.meta.txt"};
}

// Empty where the file is missing or has another number of names.
std::vector<std::string> read_names(const fs::path& path, std::size_t count) {
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.size() != count) names.clear();
  return names;
}

class CifarSource : public Source {
 public:
  explicit CifarSource(const config::Cifar& config)
      : kind_("cifar" + std::to_string(config.classes)),
        path_(config.path),
        classes_(config.classes),
        layout_(layout_of(config)),
        record_(layout_.label_bytes + kPixels) {
    const fs::path folder(config.path);
    names_ = read_names(folder / layout_.names, static_cast<std::size_t>(classes_));
    for (const std::string& name : layout_.files) add_file(folder / name);
  }

  std::int64_t size() const override {
    return static_cast<std::int64_t>(files_.size() * layout_.records);
  }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t classes() const override { return classes_; }
  bool encoded() const override { return false; }
  int channels() const override { return 3; }

  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    const std::uint8_t* planes = record(index) + layout_.label_bytes;
    buffer.resize(kPixels);
    for (std::size_t i = 0; i < kPlane; ++i) {
      for (std::size_t channel = 0; channel < 3; ++channel)
        buffer[3 * i + channel] = planes[channel * kPlane + i];
    }
    return {buffer, static_cast<int>(kSide), static_cast<int>(kSide), 3};
  }

  std::int64_t label(std::int64_t index) const override {
    return record(index)[layout_.label_bytes - 1];
  }

  std::string sample_name(std::int64_t index) const override {
    const auto at = static_cast<std::size_t>(index);
    return "sample " + std::to_string(at % layout_.records) + " of " +
           files_[at / layout_.records].path().string();
  }

  std::string describe() const override {
    return kind_ + " " + path_ + ": " + std::to_string(size()) + " RGB images of 32x32, " +
           std::to_string(classes_) + " classes";
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  void add_file(const fs::path& path) {
    if (!fs::exists(path)) {
      throw Error(Exit::data, path.string() + ": no such file; `scripts/get_data.sh " + kind_ +
                                  "` fetches the set (its binary version)");
    }
    const MappedFile& file = files_.emplace_back(path);
    require_size(path, file.bytes().size(), layout_.records * record_);
    for (std::size_t i = 0; i < layout_.records; ++i) {
      const int found = file.bytes()[i * record_ + layout_.label_bytes - 1];
      if (found < classes_) continue;
      throw Error(Exit::data, path.string() + ": record " + std::to_string(i) + " has the label " +
                                  std::to_string(found) + ", but " + kind_ + " has " +
                                  std::to_string(classes_) + " classes");
    }
    fingerprint_ = hash_bytes(file.bytes(), fingerprint_);
  }

  const std::uint8_t* record(std::int64_t index) const {
    const auto at = static_cast<std::size_t>(index);
    return files_[at / layout_.records].bytes().data() + at % layout_.records * record_;
  }

  std::string kind_;
  std::string path_;
  int classes_;
  Layout layout_;
  std::size_t record_;
  std::vector<MappedFile> files_;
  std::vector<std::string> names_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_cifar(const config::Cifar& config) {
  return std::make_unique<CifarSource>(config);
}

}  // namespace trainer::data

// A folder of class folders of images: path/<class>/.../<image>.
#include <algorithm>
#include <array>
#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "data/decode.h"
#include "data/files.h"
#include "data/sources.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// By name only: opening each of a million files at the start would take minutes. What a file really
// is shows its content when it is decoded.
bool has_image_name(const fs::path& path) {
  static constexpr std::array<const char*, 11> kExtensions{
      ".jpg", ".jpeg", ".jpe", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".pnm"};
  std::string extension = path.extension().string();
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(Exit::data, path.string() + ": " + reason);
}

// Files that are no samples.
struct Ignored {
  std::int64_t hidden = 0;
  std::int64_t other = 0;
  std::string first_other;

  void add(const fs::path& path) {
    if (is_hidden(path)) {
      ++hidden;
    } else if (++other == 1) {
      first_other = path.string();
    }
  }
  std::string text() const {
    std::string text;
    if (hidden > 0) text += "; ignored " + std::to_string(hidden) + " hidden";
    if (other > 0) {
      text +=
          "; ignored " + std::to_string(other) + " that are no images, the first is " + first_other;
    }
    return text;
  }
};

class ImageFolderSource : public Source {
 public:
  explicit ImageFolderSource(const config::ImageFolder& config) : root_(config.path) {
    std::error_code failure;
    const fs::file_status status = fs::status(root_, failure);
    if (status.type() == fs::file_type::not_found) fail(root_, "no such folder");
    if (failure) fail(root_, "cannot be read: " + failure.message());
    if (status.type() != fs::file_type::directory) fail(root_, "is a file, not a folder");
    for (const std::string& name : class_folders()) add_class(name);
    if (ignored_.other > 0) log::warning(describe());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(samples_.size()); }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(names_.size()); }
  int channels() const override { return 3; }

  void read(std::int64_t index, Image& image) const override {
    thread_local std::vector<std::uint8_t> encoded;
    try {
      read_file(file_of(index), encoded);
      decode_image(encoded, image);
    } catch (const Error& error) {
      throw Error(error.code(), file_of(index) + " (class \"" +
                                    names_[static_cast<std::size_t>(label(index))] +
                                    "\"): " + error.what());
    }
    image.bytes_read = static_cast<std::int64_t>(encoded.size());
  }

  std::int64_t label(std::int64_t index) const override {
    return samples_[static_cast<std::size_t>(index)].label;
  }
  std::string sample_name(std::int64_t index) const override { return file_of(index); }

  std::string describe() const override {
    return "image_folder " + root_.string() + ": " + std::to_string(size()) + " images, " +
           std::to_string(classes()) + " classes" + ignored_.text();
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  struct Sample {
    std::string path;  // relative to the class folder
    std::int32_t label;
  };

  std::vector<std::string> class_folders() {
    std::vector<std::string> names;
    std::error_code failure;
    for (fs::directory_iterator entry(root_, failure), end; !failure && entry != end;
         entry.increment(failure)) {
      if (!is_hidden(entry->path()) && entry->is_directory(failure))
        names.push_back(entry->path().filename().string());
      else
        ignored_.add(entry->path());
    }
    if (failure) fail(root_, "cannot be read: " + failure.message());
    if (names.empty()) {
      fail(root_, "has no class folders; expected " + (root_ / "<class>" / "<image>").string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  // Links to files count; links to folders below the class folder are not followed, since they may
  // form a cycle.
  void add_class(const std::string& name) {
    const fs::path folder = root_ / name;
    std::vector<std::string> files;
    std::error_code failure;
    for (fs::recursive_directory_iterator entry(folder, failure), end; !failure && entry != end;
         entry.increment(failure)) {
      const fs::path& path = entry->path();
      if (is_hidden(path)) {
        ignored_.add(path);
        entry.disable_recursion_pending();
      } else if (entry->is_directory(failure) && !entry->is_symlink(failure)) {
        continue;
      } else if (has_image_name(path) && !entry->is_directory(failure)) {
        files.push_back(path.lexically_relative(folder).string());
      } else {
        ignored_.add(path);
      }
    }
    if (failure) fail(folder, "cannot be read: " + failure.message());
    if (files.empty()) {
      fail(folder, "this class folder holds no images; put some there or remove the folder");
    }
    std::sort(files.begin(), files.end());
    const auto label = static_cast<std::int32_t>(names_.size());
    names_.push_back(name);
    fingerprint_ = hash_text(name, fingerprint_);
    for (std::string& file : files) {
      fingerprint_ = hash_text(file, fingerprint_);
      samples_.push_back({std::move(file), label});
    }
  }

  std::string file_of(std::int64_t index) const {
    const Sample& sample = samples_[static_cast<std::size_t>(index)];
    return (root_ / names_[static_cast<std::size_t>(sample.label)] / sample.path).string();
  }

  fs::path root_;
  std::vector<std::string> names_;
  std::vector<Sample> samples_;
  Ignored ignored_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_image_folder(const config::ImageFolder& config) {
  return std::make_unique<ImageFolderSource>(config);
}

}  // namespace trainer::data

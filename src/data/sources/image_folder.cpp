// A folder of class folders of images: path/<class>/.../<image>.
#include <filesystem>

#include "core/error.h"
#include "core/log.h"
#include "data/sources/files.h"
#include "data/sources/folder_listing.h"
#include "data/sources/sources.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(Exit::data, printable(path) + ": " + reason);
}

void require_folder(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (status.type() == fs::file_type::not_found) fail(path, "no such folder");
  if (failure) fail(path, "cannot be read: " + failure.message());
  if (status.type() != fs::file_type::directory) fail(path, "is a file, not a folder");
}

FolderListing listing_of(const config::ImageFolder& config) {
  require_folder(config.path);
  if (!config.index) return list_folder(config.path);
  if (auto kept = load_listing(config.path)) return std::move(*kept);
  FolderListing listing = list_folder(config.path);
  save_listing(config.path, listing);
  return listing;
}

class ImageFolderSource : public FileSource {
 public:
  explicit ImageFolderSource(const config::ImageFolder& config)
      : root_(config.path), listing_(listing_of(config)) {
    fingerprint_ = hash_names();
    if (listing_.ignored.other.count + listing_.ignored.links.count > 0) log::warning(describe());
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(listing_.files.size()); }
  const std::vector<std::string>& class_names() const override { return listing_.classes; }
  std::int64_t classes() const override {
    return static_cast<std::int64_t>(listing_.classes.size());
  }
  bool encoded() const override { return true; }
  int channels() const override { return 3; }

  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    return fetch_file(file(index), class_of(index), buffer);
  }

  std::int64_t label(std::int64_t index) const override {
    return static_cast<std::int64_t>(listing_.class_of(static_cast<std::size_t>(index)));
  }
  fs::path file(std::int64_t index) const override {
    return root_ / class_of(index) / listing_.files[static_cast<std::size_t>(index)];
  }
  std::string sample_name(std::int64_t index) const override { return printable(file(index)); }

  std::string describe() const override {
    return "image_folder " + printable(root_) + ": " + std::to_string(size()) + " images, " +
           std::to_string(classes()) + " classes" + listing_.ignored.text();
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  const std::string& class_of(std::int64_t index) const {
    return listing_.classes[static_cast<std::size_t>(label(index))];
  }

  std::uint64_t hash_names() const {
    std::uint64_t hash = 0;
    std::size_t file = 0;
    for (std::size_t i = 0; i < listing_.classes.size(); ++i) {
      const bool last = i + 1 == listing_.classes.size();
      const std::size_t end = last ? listing_.files.size() : listing_.class_begins[i + 1];
      hash = hash_text(listing_.classes[i], hash);
      for (; file < end; ++file) hash = hash_text(listing_.files[file], hash);
    }
    return hash;
  }

  fs::path root_;
  FolderListing listing_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_image_folder(const config::ImageFolder& config) {
  return std::make_unique<ImageFolderSource>(config);
}

}  // namespace trainer::data

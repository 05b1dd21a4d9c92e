// Images in tar files, WebDataset's layout.
#include <algorithm>
#include <fstream>

#include "core/error.h"
#include "core/text.h"
#include "data/sources/files.h"
#include "data/sources/shard_listing.h"
#include "data/sources/sources.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(Exit::data, printable(path) + ": " + reason);
}

// The files in `folder` that match, sorted by name.
std::vector<fs::path> matching_files(const fs::path& folder, const std::string& pattern) {
  std::vector<fs::path> files;
  std::error_code failure;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (!name.starts_with('.') && glob_match(pattern, name) && !entry->is_directory(unknown))
      files.push_back(folder / name);
  }
  if (failure) fail(folder, "cannot be read: " + failure.message());
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<fs::path> find_shards(const fs::path& path) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  std::vector<fs::path> files;
  if (status.type() == fs::file_type::directory) {
    files = matching_files(path, "*.tar");
    if (files.empty()) fail(path, "this folder holds no .tar files");
    return files;
  }
  if (fs::exists(status)) return {path};
  const std::string pattern = path.filename().string();
  if (pattern.find_first_of("*?") == std::string::npos) fail(path, "no such file or folder");
  const fs::path folder = path.parent_path();
  files = matching_files(folder.empty() ? fs::path(".") : folder, pattern);
  if (files.empty()) fail(path, "no file's name matches");
  return files;
}

std::vector<MappedFile> map_shards(const fs::path& path) {
  std::vector<MappedFile> shards;
  for (const fs::path& file : find_shards(path)) shards.emplace_back(file);
  return shards;
}

ShardListing listing_of(const config::TarShards& config, const std::vector<MappedFile>& shards,
                        std::int64_t looked_at) {
  if (!config.index) return list_shards(shards);
  if (auto kept = load_listing(fs::path(config.path), shards)) return std::move(*kept);
  ShardListing listing = list_shards(shards);
  save_listing(config.path, shards, looked_at, listing);
  return listing;
}

// The lines of classes.txt beside the shards; none where there is no such file.
std::vector<std::string> read_class_names(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  require_distinct(names, printable(path));
  return names;
}

class TarShardsSource : public Source {
 public:
  explicit TarShardsSource(const config::TarShards& config)
      : path_(config.path),
        looked_at_(now()),
        shards_(map_shards(path_)),
        listing_(listing_of(config, shards_, looked_at_)) {
    if (listing_.places.empty()) fail(path_, "there are no samples in it");
    resolve_labels(config.classes);
    const auto& weights = listing_.weights;
    weighted_ = std::any_of(weights.begin(), weights.end(), [](float w) { return w != 1.0F; });
    fingerprint_ = hash_samples();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(listing_.places.size()); }
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.names.size()); }
  bool encoded() const override { return true; }
  int channels() const override { return 3; }

  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& /*buffer*/) const override {
    const auto sample = static_cast<std::size_t>(index);
    const ShardListing::Place& place = listing_.places[sample];
    const MappedFile& shard = shard_of(sample);
    const Bytes image = shard.bytes().subspan(place.offset, place.size);
    shard.prefetch(image);
    return {.bytes = image};
  }

  std::int64_t label(std::int64_t index) const override {
    return classes_.labels[static_cast<std::size_t>(index)];
  }
  float weight(std::int64_t index) const override {
    return listing_.weights[static_cast<std::size_t>(index)];
  }
  bool weighted() const override { return weighted_; }
  std::string sample_name(std::int64_t index) const override {
    const auto sample = static_cast<std::size_t>(index);
    return printable(shard_of(sample).path()) + ": " + printable(listing_.images[sample]);
  }

  std::string describe() const override {
    return "tar_shards " + printable(path_) + ": " + std::to_string(size()) + " images in " +
           std::to_string(shards_.size()) + " shards, " + std::to_string(classes()) + " classes" +
           (weighted_ ? ", weighted" : "");
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  const MappedFile& shard_of(std::size_t sample) const {
    return shards_[listing_.shard_of(sample)];
  }

  void resolve_labels(const std::vector<std::string>& configured) {
    require_distinct(configured, printable(path_));
    const std::vector<std::string> names =
        configured.empty() ? read_class_names(shards_.front().path().parent_path() / "classes.txt")
                           : configured;
    const auto place = [this](std::size_t text) {
      const auto& samples = listing_.labels.samples();
      const auto first = std::find(samples.begin(), samples.end(), static_cast<std::int32_t>(text));
      return sample_name(first - samples.begin());
    };
    classes_ = resolve(listing_.labels, names, Integers::indices_first, place);
    if (!configured.empty()) require_samples(classes_, printable(path_));
    listing_.labels = {};
  }

  std::uint64_t hash_samples() const {
    std::uint64_t hash = 0;
    for (const std::string& name : classes_.names) hash = hash_text(name, hash);
    for (std::size_t i = 0; i < listing_.images.size(); ++i)
      hash = hash_text(listing_.images[i], hash);
    const auto hash_values = [&hash](const auto& values) {
      const auto* bytes = reinterpret_cast<const char*>(values.data());
      hash = hash_text({bytes, values.size() * sizeof values[0]}, hash);
    };
    hash_values(classes_.labels);
    hash_values(listing_.weights);
    hash_values(listing_.places);
    return hash;
  }

  fs::path path_;
  std::int64_t looked_at_;
  std::vector<MappedFile> shards_;
  ShardListing listing_;
  Classes classes_;
  bool weighted_ = false;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_tar_shards(const config::TarShards& config) {
  return std::make_unique<TarShardsSource>(config);
}

}  // namespace trainer::data

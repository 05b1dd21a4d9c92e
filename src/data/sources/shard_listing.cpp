#include "data/sources/shard_listing.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/sources/parallel.h"
#include "data/sources/tar.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& reason) { throw Error(Exit::data, reason); }

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// A member's name cut at the first dot of its last part.
struct SplitName {
  std::string_view key;
  std::string_view extension;
};

// nullopt for hidden files and those without an extension, which are no part of a sample.
std::optional<SplitName> split_name(std::string_view name) {
  const auto slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const auto dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return std::nullopt;
  return SplitName{name.substr(0, dot), name.substr(dot + 1)};
}

// The members of one key.
struct Group {
  std::string key;
  std::string image;
  Bytes content;
  std::optional<std::string> label;       // of the .cls member
  std::optional<std::string> json_label;  // of the .json member
  float weight = 1;
  std::string other;  // a member that is none of these
};

void read_json(std::string_view text, Group& group) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail("its .json is no JSON object");
  auto label = json.find("label");
  if (label == json.end()) label = json.find("cls");
  if (label != json.end()) {
    if (label->is_number_integer())
      group.json_label = label->dump();
    else if (label->is_string())
      group.json_label = label->get<std::string>();
    else
      fail("the label in its .json is neither a name nor an integer");
  }
  if (const auto weight = json.find("weight"); weight != json.end()) {
    const double value = weight->is_number() ? weight->get<double>() : std::nan("");
    group.weight = checked_weight(value, weight->dump());
  }
}

// Reads one shard.
class ShardScan {
 public:
  explicit ShardScan(Bytes archive) : archive_(archive) {}

  ShardListing run() {
    TarReader reader(archive_);
    for (TarMember member; reader.next(member);) {
      if (!member.file) continue;
      if (const auto name = split_name(member.name)) add(member, *name);
    }
    finish();
    return std::move(listing_);
  }

 private:
  void add(const TarMember& member, const SplitName& name) {
    if (!group_ || group_->key != name.key) {
      finish();
      group_.emplace().key = std::string(name.key);
    }
    at_key([&] { add_part(member, name.extension); });
  }

  void add_part(const TarMember& member, std::string_view extension) {
    const bool image = extension.find('.') == std::string_view::npos &&
                       has_image_extension("." + std::string(extension));
    if (image && !group_->image.empty()) {
      fail("there are two images, " + printable(group_->image) + " and " + printable(member.name));
    }
    if (image) {
      group_->image = member.name;
      group_->content = member.content;
    } else if (extension == "cls") {
      group_->label = std::string(trimmed(as_text(member.content)));
    } else if (extension == "json") {
      read_json(as_text(member.content), *group_);
    } else {
      group_->other = member.name;
    }
  }

  [[noreturn]] void fail_without_image() const {
    if (group_->other.empty()) fail("there is no image");
    fail("there is no image, only " + printable(group_->other) +
         " (an image's name has one dot: <key>.<jpg|png|...>)");
  }

  // Adds the sample that the group is.
  void finish() {
    if (!group_) return;
    at_key([this] {
      if (group_->image.empty()) fail_without_image();
      if (!group_->label) group_->label = group_->json_label;
      if (!group_->label) fail("there is no label: neither a .cls, nor a \"label\" in a .json");
      if (group_->label->empty()) fail("the label is empty");
    });
    const auto offset = static_cast<std::uint64_t>(group_->content.data() - archive_.data());
    listing_.places.push_back({offset, group_->content.size()});
    listing_.images.add(group_->image);
    listing_.labels.add(*group_->label);
    listing_.weights.push_back(group_->weight);
    group_.reset();
  }

  // Runs `part`; an error of it is given the key.
  template <class Part>
  void at_key(Part&& part) const {
    try {
      part();
    } catch (const Error& error) {
      throw Error(error.code(), "key \"" + printable(group_->key) + "\": " + error.what());
    }
  }

  Bytes archive_;
  std::optional<Group> group_;
  ShardListing listing_;
};

ShardListing list_shard(const MappedFile& shard) {
  // From the headers alone; what lies between them would be all of the images.
  shard.set_read_ahead(MappedFile::ReadAhead::none);
  try {
    ShardListing listing = ShardScan(shard.bytes()).run();
    shard.set_read_ahead(MappedFile::ReadAhead::normal);
    return listing;
  } catch (const Error& error) {
    throw Error(error.code(), printable(shard.path()) + ": " + error.what());
  }
}

void append(ShardListing& listing, ShardListing&& found) {
  listing.shard_begins.push_back(listing.places.size());
  listing.places.insert(listing.places.end(), found.places.begin(), found.places.end());
  listing.images.append(found.images);
  for (const std::int32_t text : found.labels.samples())
    listing.labels.add(found.labels.texts()[static_cast<std::size_t>(text)]);
  listing.weights.insert(listing.weights.end(), found.weights.begin(), found.weights.end());
  found = {};
}

bool fits(const ShardListing& listing, const std::vector<MappedFile>& shards) {
  if (listing.shard_begins.size() != shards.size()) return false;
  for (std::size_t i = 0; i < listing.places.size(); ++i) {
    const std::size_t size = shards[listing.shard_of(i)].bytes().size();
    const ShardListing::Place& place = listing.places[i];
    if (place.offset > size || place.size > size - place.offset) return false;
  }
  return true;
}

std::vector<std::string> paths_of(const std::vector<MappedFile>& shards) {
  std::vector<std::string> paths;
  paths.reserve(shards.size());
  for (const MappedFile& shard : shards) paths.push_back(fs::absolute(shard.path()).string());
  return paths;
}

std::string subject_of(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

constexpr const char* kKind = "tar_shards";

}  // namespace

std::size_t ShardListing::shard_of(std::size_t sample) const {
  const auto next = std::upper_bound(shard_begins.begin(), shard_begins.end(), sample);
  return static_cast<std::size_t>(next - shard_begins.begin()) - 1;
}

ShardListing list_shards(const std::vector<MappedFile>& shards) {
  std::vector<ShardListing> found(shards.size());
  for_each_in_parallel(shards.size(), [&](std::size_t i) { found[i] = list_shard(shards[i]); });
  ShardListing listing;
  for (ShardListing& each : found) append(listing, std::move(each));
  return listing;
}

std::optional<ShardListing> load_listing(const fs::path& path,
                                         const std::vector<MappedFile>& shards) {
  const auto bytes = load_index(kKind, subject_of(path));
  if (!bytes) return std::nullopt;
  try {
    Unpacker unpacker(*bytes);
    if (unpacker.texts() != paths_of(shards)) return std::nullopt;
    const auto stamps = unpacker.numbers<Stamp>();
    if (stamps.size() != shards.size()) return std::nullopt;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      if (stamp_of(shards[i].path()) != stamps[i]) return std::nullopt;
    }
    ShardListing listing;
    listing.places = unpacker.numbers<ShardListing::Place>();
    listing.shard_begins = unpacker.numbers<std::uint64_t>();
    listing.images = unpacker.text_list();
    std::vector<std::string> texts = unpacker.texts();
    listing.labels = LabelTexts(std::move(texts), unpacker.numbers<std::int32_t>());
    listing.weights = unpacker.numbers<float>();
    if (fits(listing, shards)) return listing;
  } catch (const Unpacker::Damaged&) {
    return std::nullopt;
  }
  return std::nullopt;
}

void save_listing(const fs::path& path, const std::vector<MappedFile>& shards,
                  std::int64_t looked_at, const ShardListing& listing) {
  std::vector<Stamp> stamps;
  for (const MappedFile& shard : shards) {
    const auto stamp = stamp_of(shard.path());
    if (!stamp || !settled(*stamp, looked_at)) return;
    stamps.push_back(*stamp);
  }
  Packer packer;
  packer.texts(paths_of(shards));
  packer.numbers(stamps);
  packer.numbers(listing.places);
  packer.numbers(listing.shard_begins);
  packer.texts(listing.images);
  packer.texts(listing.labels.texts());
  packer.numbers(listing.labels.samples());
  packer.numbers(listing.weights);
  save_index(kKind, subject_of(path), packer);
}

}  // namespace trainer::data

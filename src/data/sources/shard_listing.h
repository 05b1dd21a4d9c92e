// The samples in tar shards of WebDataset's layout: <key>.<image extension> with <key>.cls or
// <key>.json, the members of a sample one after another.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/sources/files.h"
#include "data/sources/index_file.h"
#include "data/sources/labels.h"
#include "data/sources/text_list.h"

namespace trainer::data {

// In the order of the shards, then of their members.
struct ShardListing {
  // Where an image's bytes are.
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
  };
  std::vector<Place> places;
  std::vector<std::uint64_t> shard_begins;  // of each shard in `places`
  TextList images;                          // their members' names
  LabelTexts labels;
  std::vector<float> weights;

  std::size_t shard_of(std::size_t sample) const;
};

// Looks through the shards with several threads. Throws Error(data) naming the shard, and the
// member or key, where one is damaged or a sample lacks its image or label.
ShardListing list_shards(const std::vector<MappedFile>& shards);

// The listing of the shards at `path` that an earlier run kept, if none of them has changed since.
std::optional<ShardListing> load_listing(const std::filesystem::path& path,
                                         const std::vector<MappedFile>& shards);
// Keeps it for later runs, unless a shard changed so shortly before `looked_at` (`now()` before
// the first was mapped) that it may be changing still.
void save_listing(const std::filesystem::path& path, const std::vector<MappedFile>& shards,
                  std::int64_t looked_at, const ShardListing& listing);

}  // namespace trainer::data

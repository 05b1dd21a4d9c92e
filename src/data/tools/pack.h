// Writes a source's samples to tar shards, which are read faster than a file each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include "data/dataset.h"

namespace trainer::data {

struct PackOptions {
  std::filesystem::path output;                      // a folder that is made
  std::int64_t shard_bytes = std::int64_t{1} << 30;  // a shard is larger only for a single sample
  bool overwrite = false;                            // an output that an earlier `pack` wrote
};

// Called after each sample.
using PackProgress = std::function<void(std::int64_t done, std::int64_t all)>;

// Writes shard-000000.tar ... with the members <index>.<extension>, <index>.cls (the class's index)
// and, of a weighted source, <index>.json, and classes.txt. A `tar_shards` source of them has the
// same samples in the same order with the same labels, names and weights. Image files are copied
// as they are; pixels become PGM or PPM files. Equal samples give equal bytes.
// The output appears in one atomic step, on disk, or not at all. Throws Error(storage) where it
// exists or cannot be written, Error(data) where a sample cannot be read.
void pack(const Source& source, const PackOptions& options, const PackProgress& progress = {});

}  // namespace trainer::data

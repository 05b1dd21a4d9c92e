// Sets a part of a data set aside for validation.
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/dataset.h"

namespace trainer::data {

struct SplitOptions {
  double share = 0.1;  // of each class's samples that goes to validation, between 0 and 1
  std::uint64_t seed = 0;
  std::filesystem::path train, val;  // CSV manifests that are made; they must not exist
};

struct SplitCounts {
  std::int64_t train = 0, val = 0;
};

// Of the n samples of each class, round(share * n), but at least 1 and at most n - 1, go to `val`,
// drawn by (seed, class), the others to `train`; both in the order of the source. Paths are
// absolute. Labels are names where `manifest` sources of the two files, without `classes`, have
// the source's indices for them, else indices. Weights are kept.
// Throws Error(usage) for a share outside (0, 1), Error(data) where the source's samples are no
// files or a class has one sample only, Error(storage) where a manifest exists or cannot be
// written; neither is there then.
SplitCounts split(const Source& source, const SplitOptions& options);

}  // namespace trainer::data

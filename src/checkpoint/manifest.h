// The manifest of a checkpoint, and its files read against it. Internal.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/files.h"
#include "core/tensors.h"

namespace trainer::checkpoint {

struct Manifest {
  std::vector<std::string> parts;
  std::map<std::string, Fingerprint> files;  // by name
};

// Throws Error(storage) where it is absent or malformed, or one of its files is absent or of
// another size.
Manifest read_manifest(const std::filesystem::path& folder);

// A file of the checkpoint, read once; Error(storage) where its hash is not the manifest's.
std::string read_verified_text(const std::filesystem::path& folder, const Manifest& manifest,
                               const std::string& file);
NamedTensors read_verified_tensors(const std::filesystem::path& folder, const Manifest& manifest,
                                   const std::string& file);

}  // namespace trainer::checkpoint

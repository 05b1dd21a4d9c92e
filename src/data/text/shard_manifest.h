// The list of shards in a folder that `trainer data tokenize` wrote, and how far it came.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::data {

constexpr const char* kShardExtension = ".tokens";
constexpr const char* kManifestName = "tokens.json";

struct ShardManifest {
  struct Shard {
    std::string file;
    std::int64_t tokens = 0;
    std::int64_t documents = 0;  // that end in it
  };
  struct Position {  // in the input
    std::uint64_t file = 0;
    std::uint64_t offset = 0;
    bool inside = false;  // within a document
    bool operator==(const Position&) const = default;
  };
  bool complete = false;
  std::uint64_t settings = 0;   // a hash of all that the tokens depend on
  std::uint64_t tokenizer = 0;  // fingerprint
  std::string tokenizer_text;   // Tokenizer::describe
  std::string tokenizer_path;   // where it was read from, or "bytes" or "characters"
  std::string alphabet;         // of characters, UTF-8
  std::vector<Shard> shards;
  Position next;  // where the next shard begins
};

// nullopt where the folder has none. Throws Error(data) where it cannot be read.
std::optional<ShardManifest> read_manifest(const std::filesystem::path& folder);
// In one atomic step. Throws Error(storage).
void write_manifest(const std::filesystem::path& folder, const ShardManifest& manifest);

// Throws Error(data) where `folder` has a manifest that is not complete, or lacks one of its
// shards.
void require_all_shards(const std::filesystem::path& folder);

}  // namespace trainer::data

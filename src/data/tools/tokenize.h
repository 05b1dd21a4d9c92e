// Makes shards of tokens from text once, so that no run has to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <variant>

#include "config/experiment.h"

namespace trainer::data {

struct TokenizeOptions {
  // What is read, by which tokenizer. Length, packing and part do not matter here.
  std::variant<config::TextFiles, config::JsonlFiles> input;
  std::filesystem::path output;  // a folder; made where it is missing
  int workers = 1;               // threads
  // A shard ends after the piece of input (about `block_bytes` of text) that brings it to that
  // many.
  std::int64_t shard_tokens = 100'000'000;
  std::uint64_t block_bytes = std::uint64_t{1} << 20;
};

struct TokenizeProgress {
  std::uint64_t bytes = 0, all_bytes = 0;  // of the input
  std::int64_t tokens = 0;
  std::int64_t shards = 0;  // that are on disk
};

// Writes shard-000000.tokens ... and tokens.json, which lists them and says how they were made. A
// shard appears in one atomic step; where a run is stopped, the same call goes on after the last
// whole shard. The shards' bytes depend on the input, the tokenizer and the sizes alone, neither on
// workers nor on interruptions. Where all is done already, nothing is done. `progress` is called
// after each piece and each shard; what it throws stops the work. Throws Error(data) where the
// input cannot be read, Error(storage) where the output cannot be written, or holds shards of
// another input, tokenizer or size.
TokenizeProgress tokenize(const TokenizeOptions& options,
                          const std::function<void(const TokenizeProgress&)>& progress = {});

}  // namespace trainer::data

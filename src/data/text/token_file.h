// Files of tokens: nanoGPT's, llm.c's and our own shards.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "data/sources/files.h"
#include "data/text/token_arrays.h"

// Our shard, little-endian: a header of 128 bytes (see token_file.cpp), the tokens, zeros up to a
// multiple of 8 bytes, the documents' ends as uint64 (in tokens from the shard's begin, rising),
// and where some tokens are not to be predicted a bit for each token, the lowest bit of a byte
// first. A document may go on in the next shard: then the last end is smaller than the number of
// tokens.

namespace trainer::data {

// Tokens that lie together in memory, and what is known of them. Cheap to copy.
struct TokenSegment {
  std::string name;  // for messages: the file
  const std::uint8_t* tokens = nullptr;
  int width = 2;            // bytes of a token: uint16 or uint32
  std::int64_t size = 0;    // tokens
  std::int64_t offset = 0;  // of the first token in the file, for messages
  bool has_documents = false;
  std::span<const std::uint64_t> ends;     // of the documents that end here
  const std::uint8_t* mask = nullptr;      // bits; null: every token is to be predicted
  std::int64_t largest = -1;               // id
  std::uint64_t fingerprint = 0;           // of all of the above
  std::uint64_t tokenizer = 0;             // its fingerprint; 0: unknown
  std::shared_ptr<const MappedFile> file;  // null in memory
  std::shared_ptr<const void> owner;       // of what is in memory

  std::uint32_t token(std::int64_t index) const;
  bool learnt(std::int64_t index) const {
    return mask == nullptr || (mask[index / 8] >> (index % 8) & 1) != 0;
  }
};

// Whatever kind of token file it is. A raw file is read through, with several threads, for its
// largest id; what was found is kept in the user's cache folder. Throws Error(data) naming the file
// and the offset where it is cut off, disagrees with its header, or is empty.
TokenSegment open_token_file(const std::filesystem::path& path);
TokenSegment segment_of(std::shared_ptr<const TokenArrays> arrays, std::string name,
                        std::uint64_t tokenizer);

// Writes our shard to `path`, which must not exist, on disk when this returns. `origin` is for the
// caller's own use (`origin_of`). Throws Error(storage).
void write_token_shard(const std::filesystem::path& path, const TokenArrays& arrays,
                       std::uint64_t tokenizer, std::uint64_t origin);
std::uint64_t origin_of(const TokenSegment& shard);
// Whether the shard's content is what was written, by its hash: reads all of it.
bool is_whole(const TokenSegment& shard);

}  // namespace trainer::data

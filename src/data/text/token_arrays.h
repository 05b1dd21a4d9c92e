// Tokens on their way into memory or into a shard.
#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset.h"
#include "data/text/tokenizer.h"

namespace trainer::data {

// What a piece of the input became.
struct TokenBlock {
  std::vector<TokenId> ids;
  std::vector<std::uint64_t> ends;   // of the documents that end in it, in `ids`
  std::vector<std::uint8_t> learnt;  // of each token: 1 where it is to be predicted; empty: all are
};

// Many blocks, as they lie in a shard. Needs two or four bytes a token.
class TokenArrays {
 public:
  // Ids up to 65535 only, unless `wide`.
  explicit TokenArrays(bool wide) : wide_(wide) {}

  void append(const TokenBlock& block);

  bool wide() const { return wide_; }
  std::int64_t size() const {
    return static_cast<std::int64_t>(wide_ ? four_.size() : two_.size());
  }
  TokenId largest() const { return largest_; }  // -1 while empty
  Bytes tokens() const;                         // uint16 or uint32
  // Of each document that has ended.
  const std::vector<std::uint64_t>& ends() const { return ends_; }
  // A bit a token, the lowest first: whether it is to be predicted. Empty where all are.
  const std::vector<std::uint8_t>& mask() const { return mask_; }

 private:
  void append_mask(const TokenBlock& block, std::int64_t begin);

  bool wide_;
  std::vector<std::uint16_t> two_;
  std::vector<std::uint32_t> four_;
  std::vector<std::uint64_t> ends_;
  std::vector<std::uint8_t> mask_;
  bool masked_ = false;
  TokenId largest_ = -1;
};

}  // namespace trainer::data

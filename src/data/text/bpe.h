// Byte-pair encoding of one piece of text: Sennrich et al. 2016 (arXiv:1508.07909), with the
// details of the `tokenizers` package.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/tokenizer.h"
#include "data/text/word_cache.h"

namespace trainer::data {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};
using Vocabulary = std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>>;

// The right to merge two tokens into one. The earlier in the list, the earlier it is used.
struct Merge {
  TokenId left, right, merged;
};

struct BpeOptions {
  // What characters without a token become; left out where there is no such token.
  std::optional<TokenId> unknown;
  bool fuse_unknown = false;   // several unknown characters are one token
  bool byte_fallback = false;  // an unknown character becomes the tokens <0x00> to <0xFF> first
  bool ignore_merges = false;  // a piece that is a token is that token, however it would be merged
  bool bytes = false;          // pieces are of bytes, not of characters
};

class Bpe {
 public:
  // With `bytes`, the keys of `vocabulary` are bytes too.
  Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, BpeOptions options);

  // Appends the ids of a piece: bytes, or else valid UTF-8. From many threads.
  void encode(std::string_view piece, std::vector<TokenId>& ids) const;
  // Appends what stands for a byte that is no part of UTF-8.
  void encode_byte(unsigned char byte, std::vector<TokenId>& ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct MergeSlot {
    std::uint64_t pair;
    std::uint32_t rank;
    TokenId merged;
  };
  struct Work;

  const MergeSlot* merge_of(TokenId left, TokenId right) const;
  void add_merge(std::uint32_t rank, const Merge& merge);
  void find_boundaries(const std::vector<Merge>& merges);
  void encode_word(std::string_view word, std::vector<TokenId>& ids) const;
  void symbols_of(std::string_view word, std::vector<TokenId>& symbols) const;
  bool fall_back(std::string_view character, std::vector<TokenId>& symbols) const;
  void merge_few(std::vector<TokenId>& symbols) const;
  void merge_many(Work& work) const;
  static Work& work();

  Vocabulary vocabulary_;
  BpeOptions options_;
  std::array<TokenId, 256> single_{};      // of a byte, or of an ASCII character; -1: none
  std::array<TokenId, 256> byte_token_{};  // <0x00> to <0xFF>, or, with `bytes`, single_
  bool all_byte_tokens_ = false;
  std::vector<MergeSlot> merges_;  // open addressing, a power of two
  int shift_ = 0;
  bool split_at_marks_ = false;  // see Note [Words of SentencePiece]
  std::uint64_t cache_id_;
};

}  // namespace trainer::data

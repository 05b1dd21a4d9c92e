// What pieces of text became, kept a thread: no locks, and nothing allocated once it has grown.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/text/tokenizer.h"

namespace trainer::data {

// At most some 6 MB; it starts anew when it is full.
class WordCache {
 public:
  static constexpr std::size_t kLongest = 96;  // bytes; longer pieces are not worth their place

  // The ids of `word`, or nothing (and `hash` for add()).
  const TokenId* find(std::string_view word, std::uint64_t& hash, std::size_t& count) const;
  // `word` is not in it, and no longer than kLongest.
  void add(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids);

  // This thread's cache of the tokenizer that drew `id`. A thread keeps those of the few that it
  // used last.
  static WordCache& of(std::uint64_t id);
  static std::uint64_t draw_id();

 private:
  struct Entry {
    std::uint64_t hash;
    std::uint32_t word_at, ids_at;
    std::uint32_t word_size, count;  // word_size 0: free
  };
  void clear();

  std::vector<Entry> entries_;
  std::vector<char> words_;
  std::vector<TokenId> ids_;
  std::size_t used_ = 0;
};

}  // namespace trainer::data

#include "data/text/word_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trainer::data {
namespace {

constexpr std::size_t kEntries = std::size_t{1} << 16;
constexpr std::size_t kMostUsed = kEntries / 2;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr std::size_t kMostIds = std::size_t{3} << 17;
constexpr std::size_t kKept = 4;

}  // namespace

const TokenId* WordCache::find(std::string_view word, std::uint64_t& hash,
                               std::size_t& count) const {
  hash = XXH3_64bits(word.data(), word.size());
  if (entries_.empty()) return nullptr;
  for (std::size_t at = hash;; ++at) {
    const Entry& entry = entries_[at & (kEntries - 1)];
    if (entry.word_size == 0) return nullptr;
    if (entry.hash == hash && entry.word_size == word.size() &&
        std::memcmp(words_.data() + entry.word_at, word.data(), word.size()) == 0) {
      count = entry.count;
      return ids_.data() + entry.ids_at;
    }
  }
}

void WordCache::add(std::string_view word, std::uint64_t hash, std::span<const TokenId> ids) {
  const bool full = used_ == kMostUsed || words_.size() + word.size() > kMostBytes ||
                    ids_.size() + ids.size() > kMostIds;
  if (entries_.empty() || full) clear();
  std::size_t at = hash;
  while (entries_[at & (kEntries - 1)].word_size != 0) ++at;
  entries_[at & (kEntries - 1)] = {
      hash, static_cast<std::uint32_t>(words_.size()), static_cast<std::uint32_t>(ids_.size()),
      static_cast<std::uint32_t>(word.size()), static_cast<std::uint32_t>(ids.size())};
  words_.insert(words_.end(), word.begin(), word.end());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++used_;
}

void WordCache::clear() {
  entries_.assign(kEntries, Entry{});
  words_.clear();
  ids_.clear();
  words_.reserve(kMostBytes);
  ids_.reserve(kMostIds);
  used_ = 0;
}

WordCache& WordCache::of(std::uint64_t id) {
  // The last used first. On the heap, so that moving one moves a pointer.
  thread_local std::array<std::pair<std::uint64_t, std::unique_ptr<WordCache>>, kKept> caches;
  auto at = std::find_if(caches.begin(), caches.end(),
                         [id](const auto& kept) { return kept.second && kept.first == id; });
  if (at == caches.end()) {
    at = caches.end() - 1;
    *at = {id, std::make_unique<WordCache>()};
  }
  std::rotate(caches.begin(), at, at + 1);
  return *caches.front().second;
}

std::uint64_t WordCache::draw_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace trainer::data

#include "data/text/bpe.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <utility>

#include "core/error.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

// Up to here, looking through all pairs for each merge is faster than a heap.
constexpr std::size_t kFew = 48;
constexpr TokenId kNone = -1;
constexpr std::uint64_t kFree = ~std::uint64_t{0};
constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, which stands for a space

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

std::string byte_token(unsigned byte) {
  std::array<char, 8> name{};
  std::snprintf(name.data(), name.size(), "<0x%02X>", byte);
  return name.data();
}

TokenId find_or_none(const Vocabulary& vocabulary, std::string_view token) {
  const auto at = vocabulary.find(token);
  return at == vocabulary.end() ? kNone : at->second;
}

}  // namespace

// Lists that a thread uses again and again.
struct Bpe::Work {
  std::vector<TokenId> symbols;
  std::vector<std::uint32_t> before, after;
  std::vector<std::uint64_t> heap;  // rank and position of a merge that is possible, or was
};

Bpe::Work& Bpe::work() {
  thread_local Work work;
  return work;
}

Bpe::Bpe(Vocabulary vocabulary, const std::vector<Merge>& merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(options), cache_id_(WordCache::draw_id()) {
  single_.fill(kNone);
  for (unsigned byte = 0; byte < (options_.bytes ? 256U : 128U); ++byte) {
    const char text = static_cast<char>(byte);
    single_[byte] = find_or_none(vocabulary_, {&text, 1});
  }
  all_byte_tokens_ = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    byte_token_[byte] =
        options_.bytes ? single_[byte] : find_or_none(vocabulary_, byte_token(byte));
    all_byte_tokens_ = all_byte_tokens_ && byte_token_[byte] != kNone;
  }
  int bits = 4;
  while ((std::size_t{1} << bits) < 2 * merges.size()) ++bits;
  merges_.assign(std::size_t{1} << bits, {kFree, kNoRank, kNone});
  shift_ = 64 - bits;
  for (std::size_t i = 0; i < merges.size(); ++i)
    add_merge(static_cast<std::uint32_t>(i), merges[i]);
  find_boundaries(merges);
}

void Bpe::add_merge(std::uint32_t rank, const Merge& merge) {
  const std::uint64_t pair = pair_of(merge.left, merge.right);
  std::size_t at = pair * 0x9E3779B97F4A7C15U >> shift_;
  while (merges_[at].pair != kFree && merges_[at].pair != pair)
    at = (at + 1) & (merges_.size() - 1);
  // Twice in the list: the last one counts.
  merges_[at] = {pair, rank, merge.merged};
}

const Bpe::MergeSlot* Bpe::merge_of(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t at = pair * 0x9E3779B97F4A7C15U >> shift_;
  while (merges_[at].pair != pair) {
    if (merges_[at].pair == kFree) return nullptr;
    at = (at + 1) & (merges_.size() - 1);
  }
  return &merges_[at];
}

// Note [Words of SentencePiece]: Llama 2's tokenizer.json hands over a whole document as one piece,
// its spaces written as U+2581. Where no merge joins something that ends in another character with
// something that starts with the mark, nothing is ever merged across such a place, so that cutting
// there first gives the same ids, and words instead of documents.
void Bpe::find_boundaries(const std::vector<Merge>& merges) {
  // With ignore_merges, what matters is whether the whole piece is a token.
  if (options_.bytes || options_.ignore_merges || !vocabulary_.contains(kMark)) return;
  std::unordered_map<TokenId, std::uint8_t> marks;  // 1: starts with the mark, 2: ends with it
  for (const auto& [token, id] : vocabulary_)
    marks[id] = static_cast<std::uint8_t>((token.starts_with(kMark) ? 1 : 0) |
                                          (token.ends_with(kMark) ? 2 : 0));
  split_at_marks_ = std::none_of(merges.begin(), merges.end(), [&](const Merge& merge) {
    return (marks[merge.right] & 1) != 0 && (marks[merge.left] & 2) == 0;
  });
}

void Bpe::encode(std::string_view piece, std::vector<TokenId>& ids) const {
  if (!split_at_marks_) return encode_word(piece, ids);
  std::size_t begin = 0;
  for (std::size_t at = 0; (at = piece.find(kMark, at)) != std::string_view::npos;
       at += kMark.size()) {
    const bool behind_mark = at >= kMark.size() && piece.substr(at - kMark.size(), 3) == kMark;
    if (at == begin || behind_mark) continue;
    encode_word(piece.substr(begin, at - begin), ids);
    begin = at;
  }
  encode_word(piece.substr(begin), ids);
}

void Bpe::encode_word(std::string_view word, std::vector<TokenId>& ids) const {
  if (word.empty()) return;
  WordCache* cache = nullptr;
  std::uint64_t hash = 0;
  if (word.size() <= WordCache::kLongest) {
    cache = &WordCache::of(cache_id_);
    std::size_t count = 0;
    if (const TokenId* const known = cache->find(word, hash, count)) {
      ids.insert(ids.end(), known, known + count);
      return;
    }
  }
  if (word.size() > std::numeric_limits<std::uint32_t>::max() / 2)
    throw Error(Exit::data, "a text has a word of " + std::to_string(word.size()) +
                                " bytes; split it into documents of less than 2 GB");
  Work& of_thread = work();
  std::vector<TokenId>& symbols = of_thread.symbols;
  symbols.clear();
  const TokenId whole = options_.ignore_merges ? find_or_none(vocabulary_, word) : kNone;
  if (whole != kNone) {
    symbols.push_back(whole);
  } else {
    symbols_of(word, symbols);
    symbols.size() <= kFew ? merge_few(symbols) : merge_many(of_thread);
  }
  if (cache != nullptr) cache->add(word, hash, symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void Bpe::encode_byte(unsigned char byte, std::vector<TokenId>& ids) const {
  if ((options_.bytes || options_.byte_fallback) && byte_token_[byte] != kNone)
    ids.push_back(byte_token_[byte]);
  else if (options_.unknown)
    ids.push_back(*options_.unknown);
}

// As the reference does it: an unknown token waits until a known character comes, or another
// unknown one where they are not fused, while tokens of bytes do not wait for it.
void Bpe::symbols_of(std::string_view word, std::vector<TokenId>& symbols) const {
  bool waiting = false;
  for (std::size_t at = 0, length; at < word.size(); at += length) {
    length = options_.bytes ? 1 : utf8_length(word[at]);
    const TokenId id = length == 1 ? single_[static_cast<unsigned char>(word[at])]
                                   : find_or_none(vocabulary_, word.substr(at, length));
    if (id != kNone) {
      if (waiting) symbols.push_back(*options_.unknown);
      waiting = false;
      symbols.push_back(id);
    } else if (options_.byte_fallback && fall_back(word.substr(at, length), symbols)) {
      continue;
    } else if (options_.unknown) {
      if (waiting && !options_.fuse_unknown) symbols.push_back(*options_.unknown);
      waiting = true;
    }
  }
  if (waiting) symbols.push_back(*options_.unknown);
}

bool Bpe::fall_back(std::string_view character, std::vector<TokenId>& symbols) const {
  const auto token = [this](char byte) { return byte_token_[static_cast<unsigned char>(byte)]; };
  if (!all_byte_tokens_ && std::any_of(character.begin(), character.end(),
                                       [&](char byte) { return token(byte) == kNone; }))
    return false;
  std::transform(character.begin(), character.end(), std::back_inserter(symbols), token);
  return true;
}

void Bpe::merge_few(std::vector<TokenId>& symbols) const {
  std::array<const MergeSlot*, kFew> merges;  // of symbol i and the next one
  std::size_t count = symbols.size();
  for (std::size_t i = 0; i + 1 < count; ++i) merges[i] = merge_of(symbols[i], symbols[i + 1]);
  while (count > 1) {
    std::size_t best = count;
    std::uint32_t rank = kNoRank;
    for (std::size_t i = 0; i + 1 < count; ++i)
      if (merges[i] != nullptr && merges[i]->rank < rank) {
        rank = merges[i]->rank;
        best = i;
      }
    if (best == count) break;
    symbols[best] = merges[best]->merged;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best > 0) merges[best - 1] = merge_of(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = merge_of(symbols[best], symbols[best + 1]);
  }
  symbols.resize(count);
}

// O(n log n): a heap of the possible merges by rank, the leftmost first, over a linked list. What
// has changed since it went into the heap is passed over when it comes out.
void Bpe::merge_many(Work& work) const {
  std::vector<TokenId>& symbols = work.symbols;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  work.before.resize(count);
  work.after.resize(count);
  work.heap.clear();
  const auto push = [&](std::uint32_t at, std::uint32_t next) {
    const MergeSlot* const merge = merge_of(symbols[at], symbols[next]);
    if (merge != nullptr) work.heap.push_back(std::uint64_t{merge->rank} << 32 | at);
    return merge != nullptr;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    work.before[i] = i - 1;
    work.after[i] = i + 1;
    if (i + 1 < count) push(i, i + 1);
  }
  std::make_heap(work.heap.begin(), work.heap.end(), std::greater<>());
  const auto push_up = [&](std::uint32_t at, std::uint32_t next) {
    if (push(at, next)) std::push_heap(work.heap.begin(), work.heap.end(), std::greater<>());
  };
  while (!work.heap.empty()) {
    std::pop_heap(work.heap.begin(), work.heap.end(), std::greater<>());
    const std::uint64_t top = work.heap.back();
    work.heap.pop_back();
    const auto at = static_cast<std::uint32_t>(top);
    const std::uint32_t next = work.after[at];
    if (symbols[at] == kNone || next >= count) continue;
    const MergeSlot* const merge = merge_of(symbols[at], symbols[next]);
    if (merge == nullptr || merge->rank != top >> 32) continue;
    symbols[at] = merge->merged;
    symbols[next] = kNone;
    work.after[at] = work.after[next];
    if (work.after[at] < count) {
      work.before[work.after[at]] = at;
      push_up(at, work.after[at]);
    }
    if (at > 0) push_up(work.before[at], at);
  }
  std::erase(symbols, kNone);
}

}  // namespace trainer::data

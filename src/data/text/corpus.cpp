#include "data/text/corpus.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/error.h"
#include "data/text/shard_manifest.h"
#include "data/text/text_files.h"

namespace trainer::data {

struct TokenCorpus::Storage {
  std::vector<TokenSegment> segments;
  std::vector<std::int64_t> begins;  // of each segment, then the end of the last
  std::vector<std::int64_t> ends;    // of each document; empty where they are not known
  bool has_documents = true;
  bool masked = false;
  std::int64_t largest = -1;
  std::uint64_t fingerprint = 0;
  std::string name;  // for describe()

  std::size_t segment_of(std::int64_t token) const {
    const auto next = std::upper_bound(begins.begin(), begins.end(), token);
    return static_cast<std::size_t>(next - begins.begin()) - 1;
  }

  // Calls use(segment, first token within it, how many) for the pieces of a range.
  template <class Use>
  void for_pieces(std::int64_t begin, std::int64_t count, Use&& use) const {
    for (std::size_t i = segment_of(begin); count > 0; ++i) {
      const std::int64_t piece = std::min(count, begins[i + 1] - begin);
      use(segments[i], begin - begins[i], piece);
      begin += piece;
      count -= piece;
    }
  }
};

namespace {

std::uint64_t chained(std::uint64_t hash, std::uint64_t value) {
  return hash_bytes({reinterpret_cast<const std::uint8_t*>(&value), sizeof value}, hash);
}

template <class Stored, class T>
void copy_tokens(const std::uint8_t* from, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, from + i * std::int64_t{sizeof value}, sizeof value);
    to[i] = static_cast<T>(value);
  }
}

}  // namespace

TokenCorpus::TokenCorpus(std::vector<TokenSegment> segments, const std::string& kind) {
  assert(!segments.empty());
  auto storage = std::make_shared<Storage>();
  storage->begins.push_back(0);
  for (const TokenSegment& segment : segments) {
    const std::int64_t begin = storage->begins.back();
    storage->has_documents = storage->has_documents && segment.has_documents;
    storage->masked = storage->masked || segment.mask != nullptr;
    storage->largest = std::max(storage->largest, segment.largest);
    storage->fingerprint = chained(storage->fingerprint, segment.fingerprint);
    auto& ends = storage->ends;
    for (const std::uint64_t each : segment.ends) {
      const std::int64_t end = begin + static_cast<std::int64_t>(each);
      if (end > (ends.empty() ? 0 : ends.back())) ends.push_back(end);
    }
    storage->begins.push_back(begin + segment.size);
  }
  const std::int64_t size = storage->begins.back();
  if (!storage->has_documents)
    storage->ends.clear();
  else if (storage->ends.empty() || storage->ends.back() < size)
    storage->ends.push_back(size);
  storage->name = kind;
  storage->segments = std::move(segments);
  storage_ = std::move(storage);
  range_ = {0, size};
  find_documents();
}

void TokenCorpus::find_documents() {
  const auto& ends = storage_->ends;
  const auto after = [&ends](std::int64_t token) {
    return std::upper_bound(ends.begin(), ends.end(), token) - ends.begin();
  };
  documents_ = {0, 0};
  if (ends.empty() || range_.size() == 0) return;
  documents_ = {after(range_.begin), after(range_.end - 1) + 1};
}

bool TokenCorpus::has_documents() const { return storage_->has_documents; }

Range TokenCorpus::document(std::int64_t index) const {
  const auto at = static_cast<std::size_t>(documents_.begin + index);
  const std::int64_t begin = at == 0 ? 0 : storage_->ends[at - 1];
  return {std::max(begin, range_.begin) - range_.begin,
          std::min(storage_->ends[at], range_.end) - range_.begin};
}

bool TokenCorpus::masked() const { return storage_->masked; }

template <class T>
void TokenCorpus::read_as(std::int64_t begin, std::int64_t count, T* to) const {
  assert(begin >= 0 && begin + count <= size());
  storage_->for_pieces(
      range_.begin + begin, count,
      [&to](const TokenSegment& segment, std::int64_t first, std::int64_t piece) {
        const std::uint8_t* from = segment.tokens + first * segment.width;
        if (segment.file != nullptr)
          segment.file->prefetch({from, static_cast<std::size_t>(piece * segment.width)});
        if (segment.width == 2)
          copy_tokens<std::uint16_t>(from, piece, to);
        else
          copy_tokens<std::uint32_t>(from, piece, to);
        to += piece;
      });
}

void TokenCorpus::read(std::int64_t begin, std::int64_t count, std::int32_t* to) const {
  read_as(begin, count, to);
}
void TokenCorpus::read(std::int64_t begin, std::int64_t count, std::int64_t* to) const {
  read_as(begin, count, to);
}

void TokenCorpus::read_learnt(std::int64_t begin, std::int64_t count, std::uint8_t* to) const {
  storage_->for_pieces(range_.begin + begin, count,
                       [&to](const TokenSegment& segment, std::int64_t first, std::int64_t piece) {
                         for (std::int64_t i = 0; i < piece; ++i)
                           *to++ = segment.learnt(first + i) ? 1 : 0;
                       });
}

std::int64_t TokenCorpus::largest() const { return storage_->largest; }

void TokenCorpus::require_vocabulary(std::int64_t vocabulary) const {
  for (const TokenSegment& segment : storage_->segments) {
    if (segment.largest < vocabulary) continue;
    std::int64_t token = 0;
    while (token < segment.size && std::int64_t{segment.token(token)} < vocabulary) ++token;
    if (token == segment.size) continue;  // the header's largest id is only a bound
    throw Error(Exit::data, segment.name + ": the token at offset " +
                                std::to_string(segment.offset + token * segment.width) + " is " +
                                std::to_string(segment.token(token)) + ", but the vocabulary has " +
                                std::to_string(vocabulary) +
                                " ids; take the model and the tokenizer that belong together");
  }
}

std::optional<std::uint64_t> TokenCorpus::tokenizer() const {
  const std::uint64_t first = storage_->segments.front().tokenizer;
  for (const TokenSegment& segment : storage_->segments)
    if (segment.tokenizer != first) return std::nullopt;
  if (first == 0) return std::nullopt;
  return first;
}

TokenCorpus TokenCorpus::part(Range tokens) const {
  assert(tokens.begin >= 0 && tokens.begin < tokens.end && tokens.end <= size());
  TokenCorpus part = *this;
  part.range_ = {range_.begin + tokens.begin, range_.begin + tokens.end};
  part.find_documents();
  return part;
}

std::uint64_t TokenCorpus::fingerprint() const {
  return chained(chained(storage_->fingerprint, static_cast<std::uint64_t>(range_.begin)),
                 static_cast<std::uint64_t>(range_.end));
}

std::string TokenCorpus::describe() const {
  std::string text = storage_->name + ": " + std::to_string(size()) + " tokens";
  if (size() < storage_->begins.back())
    text += " (from " + std::to_string(range_.begin) + " on) of " +
            std::to_string(storage_->begins.back());
  if (has_documents()) text += ", " + std::to_string(documents()) + " documents";
  if (storage_->segments.size() > 1)
    text += ", " + std::to_string(storage_->segments.size()) + " files";
  return text + ", ids up to " + std::to_string(largest());
}

TokenCorpus open_tokens(const std::string& path) {
  const std::vector<std::filesystem::path> files =
      find_files(path, {".bin", kShardExtension}, /*deep=*/false);
  if (std::filesystem::is_directory(path)) require_all_shards(path);
  std::vector<TokenSegment> segments(files.size());
  // One after another: a raw file is looked through with all threads.
  std::transform(files.begin(), files.end(), segments.begin(), open_token_file);
  return TokenCorpus(std::move(segments), "tokens " + printable(path));
}

namespace {

// Where the tail for validation begins.
std::int64_t cut_of(const TokenCorpus& corpus, const config::TokenSource& source) {
  const auto cut = static_cast<std::int64_t>(
      std::floor(static_cast<double>(corpus.size()) * (1 - source.val_share)));
  if (source.packing == config::Packing::sequential || !corpus.has_documents()) return cut;
  std::int64_t low = 0;
  std::int64_t high = corpus.documents();  // the first that begins at `cut` or later
  while (low < high) {
    const std::int64_t middle = std::midpoint(low, high);
    if (corpus.document(middle).begin < cut)
      low = middle + 1;
    else
      high = middle;
  }
  return corpus.document(std::min(low, corpus.documents() - 1)).begin;
}

}  // namespace

TokenCorpus part_of(const TokenCorpus& corpus, const config::TokenSource& source) {
  if (source.part == config::Part::all) return corpus;
  const std::int64_t cut = cut_of(corpus, source);
  if (cut == 0 || cut == corpus.size()) {
    throw Error(Exit::data,
                corpus.describe() + ": cannot be split, since one part would be empty (" +
                    std::to_string(cut) + " tokens to train on, " +
                    std::to_string(corpus.size() - cut) +
                    " for validation); change the share or give files of their own for each");
  }
  return corpus.part(source.part == config::Part::train ? Range{0, cut}
                                                        : Range{cut, corpus.size()});
}

}  // namespace trainer::data

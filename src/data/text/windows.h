// Samples of a language model: windows of a corpus, with the token that follows each as its target.
// No torch here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "data/text/corpus.h"

namespace trainer::data {

// A target that does not count; the same as core/tensors.h's kIgnored, which needs torch.
constexpr std::int32_t kIgnoredTarget = -100;

// Where a sample's numbers go: `length` of each.
struct TokenRow {
  std::int32_t* input = nullptr;
  std::int32_t* target = nullptr;     // or kIgnoredTarget
  std::int32_t* documents = nullptr;  // see core/tensors.h; only of packed windows
  std::int32_t* positions = nullptr;
};

// Sequential: sample k is tokens [k * length, (k + 1) * length), its targets those one further on,
// so that each token but the corpus's first is a target once an epoch. The last window may be
// short; it is padded, or left out with drop_partial.
//
// Documents: a document of n tokens takes n - 1 places (its last token is only a target), one that
// takes more than `length` is cut into pieces of `length`, and pieces lie side by side in rows,
// each in the fullest of the last rows that still has room for it. Each token but a document's
// first is a target once an epoch. A piece counts as a document of its own: its positions begin
// at 0. Padding is a document after the others.
//
// None: one document a sample; what goes beyond `length` is left out.
//
// In all of them padding is token 0 with targets that do not count, and a target does not count
// where the corpus's mask says so. Read-only; used from many threads.
class Windows {
 public:
  // Throws Error(config, data) where there would be no sample, or the corpus does not know its
  // documents and they are asked for.
  Windows(TokenCorpus corpus, const config::TokenSource& source);

  const TokenCorpus& corpus() const { return corpus_; }
  std::int64_t size() const { return size_; }  // samples
  std::int64_t length() const { return length_; }
  // Whether rows have documents and positions.
  bool packed() const { return packing_ == config::Packing::documents; }
  // Places that are no padding, over all samples.
  std::int64_t places() const { return places_; }
  // Documents that were cut off (none) or cut into pieces (documents).
  std::int64_t cut_documents() const { return cut_documents_; }

  // Fills a sample; returns how many of its targets count.
  std::int64_t fill(std::int64_t sample, const TokenRow& row) const;

  // Of the corpus and of how it is cut; a resumed run compares it.
  std::uint64_t fingerprint() const;
  // A line for the log: samples, their length, padding, documents that were cut.
  std::string describe() const;

 private:
  // Tokens [begin, begin + places] of the corpus: the last is only a target.
  struct Piece {
    std::int64_t begin = 0;
    std::int32_t places = 0;
  };
  class Packer;

  void plan_sequential(bool drop_partial);
  void plan_documents();
  void plan_single_documents();
  void require_documents() const;
  Piece piece_of(std::int64_t sample) const;
  std::int64_t put(const Piece& piece, const TokenRow& row, std::int64_t at) const;
  void put_place(std::int64_t piece, std::int64_t at, std::int64_t count,
                 const TokenRow& row) const;
  void pad(const TokenRow& row, std::int64_t at, std::int64_t document) const;

  TokenCorpus corpus_;
  std::int64_t length_;
  config::Packing packing_;
  std::int64_t size_ = 0;
  std::int64_t places_ = 0;
  std::int64_t cut_documents_ = 0;
  std::vector<Piece> pieces_;         // by row
  std::vector<std::int64_t> begins_;  // of each row in pieces_, then their end
};

}  // namespace trainer::data

#include "data/text/windows.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "data/sources/index_file.h"

namespace trainer::data {
namespace {

// Rows that a piece may still go to.
constexpr std::size_t kOpenRows = 256;

}  // namespace

// Gives each piece a row, best fit among the rows that are open. When too many are, the one with
// the least room is closed.
class Windows::Packer {
 public:
  explicit Packer(std::int64_t length) : length_(length) {}

  void add(const Piece& piece) {
    auto found = open_.lower_bound({piece.places, 0});
    std::int64_t row = rows_;
    std::int64_t room = length_;
    if (found != open_.end()) {
      std::tie(room, row) = *found;
      open_.erase(found);
    } else {
      ++rows_;
    }
    pieces_.push_back(piece);
    row_of_.push_back(row);
    if (room > piece.places) open_.insert({room - piece.places, row});
    if (open_.size() > kOpenRows) open_.erase(open_.begin());
  }

  std::int64_t rows() const { return rows_; }

  // The pieces row by row, within a row in the order they were added in.
  void finish(std::vector<Piece>& pieces, std::vector<std::int64_t>& begins) const {
    begins.assign(static_cast<std::size_t>(rows_) + 1, 0);
    for (const std::int64_t row : row_of_) ++begins[static_cast<std::size_t>(row) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
    pieces.resize(pieces_.size());
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      std::int64_t& to = next[static_cast<std::size_t>(row_of_[i])];
      pieces[static_cast<std::size_t>(to++)] = pieces_[i];
    }
  }

 private:
  std::int64_t length_;
  std::int64_t rows_ = 0;
  std::set<std::pair<std::int64_t, std::int64_t>> open_;  // room, row
  std::vector<Piece> pieces_;
  std::vector<std::int64_t> row_of_;
};

Windows::Windows(TokenCorpus corpus, const config::TokenSource& source)
    : corpus_(std::move(corpus)), length_(source.length), packing_(source.packing) {
  assert(length_ > 0);
  if (packing_ != config::Packing::sequential) require_documents();
  switch (packing_) {
    case config::Packing::sequential:
      plan_sequential(source.drop_partial);
      break;
    case config::Packing::documents:
      plan_documents();
      break;
    case config::Packing::none:
      plan_single_documents();
      break;
  }
  if (size_ > 0) return;
  const std::string found = corpus_.describe() + ": ";
  if (packing_ == config::Packing::sequential && corpus_.size() > 1) {
    throw Error(Exit::config, found + "no window of length " + std::to_string(length_) +
                                  " is full; make the length smaller or keep the partial window");
  }
  throw Error(Exit::data, found + "there is no token that follows another, nothing to learn from");
}

void Windows::require_documents() const {
  if (corpus_.has_documents()) return;
  throw Error(Exit::config, corpus_.describe() +
                                ": raw token files do not say where documents end; use packing: "
                                "sequential, or make shards by `trainer data tokenize`");
}

void Windows::plan_sequential(bool drop_partial) {
  const std::int64_t targets = corpus_.size() - 1;
  size_ = targets / length_ + (!drop_partial && targets % length_ != 0 ? 1 : 0);
  places_ = std::min(targets, size_ * length_);
}

void Windows::plan_documents() {
  Packer packer(length_);
  for (std::int64_t i = 0; i < corpus_.documents(); ++i) {
    const Range document = corpus_.document(i);
    const std::int64_t last = document.end - 1;
    if (last - document.begin > length_) ++cut_documents_;
    for (std::int64_t begin = document.begin; begin < last; begin += length_)
      packer.add({begin, static_cast<std::int32_t>(std::min(length_, last - begin))});
    places_ += last - document.begin;
  }
  size_ = packer.rows();
  packer.finish(pieces_, begins_);
}

void Windows::plan_single_documents() {
  for (std::int64_t i = 0; i < corpus_.documents(); ++i) {
    const Range document = corpus_.document(i);
    const std::int64_t all = document.size() - 1;
    if (all == 0) continue;
    const std::int64_t places = std::min(all, length_);
    if (places < all) ++cut_documents_;
    pieces_.push_back({document.begin, static_cast<std::int32_t>(places)});
    places_ += places;
  }
  size_ = static_cast<std::int64_t>(pieces_.size());
}

Windows::Piece Windows::piece_of(std::int64_t sample) const {
  if (packing_ == config::Packing::none) return pieces_[static_cast<std::size_t>(sample)];
  const std::int64_t begin = sample * length_;
  return {begin, static_cast<std::int32_t>(std::min(length_, corpus_.size() - 1 - begin))};
}

// Writes the piece's tokens and targets from place `at` on; returns how many targets count.
std::int64_t Windows::put(const Piece& piece, const TokenRow& row, std::int64_t at) const {
  corpus_.read(piece.begin, piece.places, row.input + at);
  std::int32_t* target = row.target + at;
  std::copy(row.input + at + 1, row.input + at + piece.places, target);
  corpus_.read(piece.begin + piece.places, 1, target + piece.places - 1);
  if (!corpus_.masked()) return piece.places;
  thread_local std::vector<std::uint8_t> learnt;
  learnt.resize(static_cast<std::size_t>(piece.places));
  corpus_.read_learnt(piece.begin + 1, piece.places, learnt.data());
  std::int64_t count = 0;
  for (std::size_t i = 0; i < learnt.size(); ++i) {
    count += learnt[i];
    if (learnt[i] == 0) target[i] = kIgnoredTarget;
  }
  return count;
}

void Windows::put_place(std::int64_t piece, std::int64_t at, std::int64_t count,
                        const TokenRow& row) const {
  std::fill_n(row.documents + at, count, static_cast<std::int32_t>(piece));
  std::iota(row.positions + at, row.positions + at + count, 0);
}

void Windows::pad(const TokenRow& row, std::int64_t at, std::int64_t document) const {
  std::fill(row.input + at, row.input + length_, 0);
  std::fill(row.target + at, row.target + length_, kIgnoredTarget);
  if (packed()) put_place(document, at, length_ - at, row);
}

std::int64_t Windows::fill(std::int64_t sample, const TokenRow& row) const {
  assert(sample >= 0 && sample < size_);
  if (!packed()) {
    const Piece piece = piece_of(sample);
    const std::int64_t count = put(piece, row, 0);
    pad(row, piece.places, 0);
    return count;
  }
  std::int64_t at = 0;
  std::int64_t count = 0;
  const std::int64_t first = begins_[static_cast<std::size_t>(sample)];
  const std::int64_t last = begins_[static_cast<std::size_t>(sample) + 1];
  for (std::int64_t i = first; i < last; ++i) {
    const Piece& piece = pieces_[static_cast<std::size_t>(i)];
    count += put(piece, row, at);
    put_place(i - first, at, piece.places, row);
    at += piece.places;
  }
  pad(row, at, last - first);
  return count;
}

std::uint64_t Windows::fingerprint() const {
  data::Packer packer;
  packer.number(corpus_.fingerprint());
  packer.number(length_);
  packer.number(static_cast<int>(packing_));
  packer.number(size_);
  return hash_text(packer.bytes(), 0);
}

std::string Windows::describe() const {
  std::string text = std::to_string(size_) + " samples of " + std::to_string(length_) + " tokens";
  const double padding =
      100 * (1 - static_cast<double>(places_) / (static_cast<double>(size_ * length_)));
  if (padding >= 0.05) {
    const auto tenths = static_cast<std::int64_t>(padding * 10 + 0.5);
    text += ", " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "% padding";
  }
  if (cut_documents_ > 0)
    text += ", " + std::to_string(cut_documents_) + " longer documents cut " +
            (packing_ == config::Packing::none ? "off" : "into pieces");
  return text;
}

}  // namespace trainer::data

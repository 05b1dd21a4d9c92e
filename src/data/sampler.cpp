#include "data/sampler.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "core/error.h"
#include "core/random.h"

namespace trainer::data {
namespace {

// Part `rank` of `whole` cut into `ranks` contiguous parts; the first ones get one more.
Range share_of(Range whole, int rank, int ranks) {
  const std::int64_t each = whole.size() / ranks;
  const std::int64_t longer = whole.size() % ranks;
  const std::int64_t begin = whole.begin + rank * each + std::min<std::int64_t>(rank, longer);
  return {begin, begin + each + (rank < longer ? 1 : 0)};
}

}  // namespace

Sampler::Sampler(std::int64_t samples, std::int64_t global, bool drop_last, bool shuffle,
                 std::uint64_t seed, int rank, int ranks)
    : samples_(samples),
      global_(global),
      drop_last_(drop_last),
      shuffle_(shuffle),
      seed_(seed),
      rank_(rank),
      ranks_(ranks) {
  assert(samples > 0 && global > 0 && rank >= 0 && rank < ranks);
  if (drop_last && samples < global) {
    throw Error(Exit::config, "data.loader.drop_last leaves nothing to train on: the data has " +
                                  std::to_string(samples) + " samples and batch.global is " +
                                  std::to_string(global) +
                                  "; make the batch smaller or set drop_last: false");
  }
}

std::int64_t Sampler::steps_per_epoch() const {
  return drop_last_ ? samples_ / global_ : (samples_ - 1) / global_ + 1;
}

std::int64_t Sampler::samples_per_epoch() const {
  return drop_last_ ? steps_per_epoch() * global_ : samples_;
}

std::int64_t Sampler::largest_share() const {
  return share_of({0, std::min(global_, samples_)}, rank_, ranks_).size();
}

StepPlace Sampler::place(std::int64_t step) const {
  assert(step >= 0);
  StepPlace place;
  place.epoch = step / steps_per_epoch();
  place.global.begin = step % steps_per_epoch() * global_;
  place.global.end = std::min(place.global.begin + global_, samples_per_epoch());
  place.share = share_of(place.global, rank_, ranks_);
  return place;
}

std::int64_t Sampler::sample(std::int64_t epoch, std::int64_t position) const {
  assert(position >= 0 && position < samples_);
  if (!shuffle_) return position;
  const Permutation order(static_cast<std::uint64_t>(samples_),
                          mix(seed_, static_cast<std::uint64_t>(epoch)));
  return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(position)));
}

}  // namespace trainer::data

// Which sample stands at which position of an epoch, and which positions make a step. Stateless: a
// pure function of (seed, epoch, position), whatever the ranks, workers and resumes.
#pragma once

#include <cstdint>

namespace trainer::data {

struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

// Where step k (counted from 0 over the whole run) stands.
struct StepPlace {
  std::int64_t epoch = 0;
  Range global;  // positions in the epoch of the whole global batch; the last may be short
  Range share;   // this rank's contiguous part of it
};

class Sampler {
 public:
  // `samples` > 0, `global` > 0, 0 <= rank < ranks. With `shuffle` off, position p is sample p.
  // Throws Error(config) where drop_last leaves no step at all.
  Sampler(std::int64_t samples, std::int64_t global, bool drop_last, bool shuffle,
          std::uint64_t seed, int rank = 0, int ranks = 1);

  std::int64_t samples() const { return samples_; }
  std::int64_t steps_per_epoch() const;
  // Samples trained in an epoch: fewer than samples() only with drop_last.
  std::int64_t samples_per_epoch() const;
  // Samples of the largest share that this rank gets in any step.
  std::int64_t largest_share() const;
  StepPlace place(std::int64_t step) const;
  std::int64_t sample(std::int64_t epoch, std::int64_t position) const;

 private:
  std::int64_t samples_, global_;
  bool drop_last_, shuffle_;
  std::uint64_t seed_;
  int rank_, ranks_;
};

}  // namespace trainer::data

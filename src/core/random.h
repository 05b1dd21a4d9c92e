// Counter-based random numbers: a value is a pure function of its key and its position, so nothing
// has to be saved, and workers, ranks and a resumed run draw the same numbers.
#pragma once

#include <array>
#include <cstdint>

namespace trainer {

// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept;

// What a stream is for; part of its key, so that two uses of one seed never share numbers.
enum class StreamUse : std::uint32_t {
  augmentation = 1,
  sample_order = 2,
  initialisation = 3,
  step = 4,
  mixing = 5,
  synthetic = 6,
  replacement = 7,
};

// A stream of numbers keyed by (seed, use, a, b), for instance (seed, augmentation, epoch, sample).
// Cheap to construct; not thread-safe; two streams with equal keys give equal numbers.
class Stream {
 public:
  Stream(std::uint64_t seed, StreamUse use, std::uint64_t a, std::uint64_t b) noexcept;

  std::uint32_t next_u32() noexcept;
  std::uint64_t next_u64() noexcept;
  // Uniform in [0, 1), 53 random bits.
  double uniform() noexcept;
  // Uniform in [low, high).
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  // Uniform over {0, ..., n-1}, without modulo bias. n > 0.
  std::uint64_t below(std::uint64_t n) noexcept;
  // Standard normal (Box-Muller).
  double normal() noexcept;
  // Beta(alpha, alpha), alpha > 0 (the share of one of two gamma draws).
  double beta(double alpha) noexcept;

 private:
  double gamma(double shape) noexcept;

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

// A 64-bit mix of its arguments (SplitMix64 finaliser), for deriving one seed from another.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept;

// A keyed permutation of {0, ..., n-1}, computed element by element in O(1) memory: a balanced
// Feistel network over the next power of four, cycle-walked into the range (Black & Rogaway 2002).
class Permutation {
 public:
  Permutation(std::uint64_t n, std::uint64_t key) noexcept;
  std::uint64_t size() const noexcept { return n_; }
  // position < size().
  std::uint64_t operator()(std::uint64_t position) const noexcept;

 private:
  std::uint64_t round_trip(std::uint64_t value) const noexcept;

  std::uint64_t n_;
  std::uint64_t key_;
  int half_bits_;
};

}  // namespace trainer

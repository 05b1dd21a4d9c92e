#include "core/random.h"

#include <cmath>
#include <numbers>

namespace trainer {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;

std::uint64_t finalise(std::uint64_t z) noexcept {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  return finalise(finalise(a) ^ (b * 0xD6E8FEB86659FD93ULL));
}

// Note [Stream keys]: the 64-bit philox key is a hash of (seed, use, a, b) and the counter starts
// at (0, 0, a's low word, b's low word), so streams that differ in a or b differ even where the
// hash collides.
Stream::Stream(std::uint64_t seed, StreamUse use, std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t key = mix(mix(mix(seed, static_cast<std::uint64_t>(use)), a), b);
  key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  counter_ = {0, 0, static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b)};
}

std::uint32_t Stream::next_u32() noexcept {
  if (used_ == 4) {
    block_ = philox4x32(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t Stream::next_u64() noexcept {
  const std::uint64_t high = next_u32();
  return (high << 32) | next_u32();
}

double Stream::uniform() noexcept { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

std::uint64_t Stream::below(std::uint64_t n) noexcept {
  const std::uint64_t threshold =
      (0 - n) % n;  // 2^64 mod n: values under it would bias low results
  for (;;) {
    const std::uint64_t value = next_u64();
    if (value >= threshold) return value % n;
  }
}

double Stream::normal() noexcept {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

// Marsaglia & Tsang (2000), shape >= 1; a smaller shape is boosted by U^(1/shape).
double Stream::gamma(double shape) noexcept {
  if (shape < 1.0) return gamma(shape + 1.0) * std::pow(1.0 - uniform(), 1.0 / shape);
  const double d = shape - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = normal();
    const double v = std::pow(1.0 + c * x, 3);
    if (v <= 0.0) continue;
    if (std::log(1.0 - uniform()) < 0.5 * x * x + d * (1.0 - v + std::log(v))) return d * v;
  }
}

double Stream::beta(double alpha) noexcept {
  const double x = gamma(alpha);
  const double y = gamma(alpha);
  // Both draws underflow only for a tiny alpha, where the distribution is a coin flip at its ends.
  if (x + y == 0.0) return uniform() < 0.5 ? 0.0 : 1.0;
  return x / (x + y);
}

Permutation::Permutation(std::uint64_t n, std::uint64_t key) noexcept : n_(n), key_(key) {
  half_bits_ = 1;
  while (half_bits_ < 32 && (std::uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
}

std::uint64_t Permutation::round_trip(std::uint64_t value) const noexcept {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (std::uint64_t round = 0; round < 6; ++round) {
    const std::uint64_t next = left ^ (mix(key_ + round, right) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  // Walking the cycle stays a bijection of the range; the domain is under four times the range, so
  // it takes fewer than four passes on average.
  std::uint64_t value = round_trip(position);
  while (value >= n_) value = round_trip(value);
  return value;
}

}  // namespace trainer

#include "data/images/resample_simd.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace trainer::data {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

std::size_t row_bytes_of(const ImageView& view) {
  return static_cast<std::size_t>(view.width) * static_cast<std::size_t>(view.channels);
}

const std::uint8_t* row_of(const ImageView& view, int y) {
  return view.pixels + static_cast<std::size_t>(y) * view.stride;
}

using filter::round_off;

template <int channels>
void convolve_row(const std::uint8_t* from, const Taps& taps, std::uint8_t* to) {
  const std::int32_t* weights = taps.weights.data();
  for (std::size_t x = 0; x < taps.first.size(); ++x, weights += taps.width, to += channels) {
    const std::uint8_t* pixel = from + taps.first[x] * channels;
    std::int32_t sums[channels];
    for (std::int32_t& sum : sums) sum = kHalf;
    for (int k = 0; k < taps.count[x]; ++k, pixel += channels) {
      for (int channel = 0; channel < channels; ++channel)
        sums[channel] += pixel[channel] * weights[k];
    }
    for (int channel = 0; channel < channels; ++channel) to[channel] = round_off(sums[channel]);
  }
}

void portable_rows(const ImageView& from, const Taps& taps, std::uint8_t* to) {
  const std::size_t row_bytes = taps.first.size() * static_cast<std::size_t>(from.channels);
  for (int y = 0; y < from.height; ++y, to += row_bytes) {
    if (from.channels == 3)
      convolve_row<3>(row_of(from, y), taps, to);
    else
      convolve_row<1>(row_of(from, y), taps, to);
  }
}

// The row of `row_bytes` that `count` rows from `rows` on make. A block at a time, so that the
// inner loop runs along memory and the sums stay in the first cache.
void combine_rows(const std::uint8_t* rows, std::size_t stride, const std::int32_t* weights,
                  int count, std::size_t row_bytes, std::uint8_t* to) {
  constexpr std::size_t block = 512;
  std::int32_t sums[block];
  for (std::size_t begin = 0; begin < row_bytes; begin += block) {
    const std::size_t size = std::min(block, row_bytes - begin);
    std::fill_n(sums, size, kHalf);
    const std::uint8_t* row = rows + begin;
    for (int k = 0; k < count; ++k, row += stride) {
      const std::int32_t weight = weights[k];
      for (std::size_t i = 0; i < size; ++i) sums[i] += row[i] * weight;
    }
    for (std::size_t i = 0; i < size; ++i) to[begin + i] = round_off(sums[i]);
  }
}

void portable_columns(const ImageView& from, const Taps& taps, std::uint8_t* to) {
  const std::size_t row_bytes = row_bytes_of(from);
  const std::int32_t* weights = taps.weights.data();
  for (std::size_t y = 0; y < taps.first.size(); ++y, weights += taps.width, to += row_bytes)
    combine_rows(row_of(from, taps.first[y]), from.stride, weights, taps.count[y], row_bytes, to);
}

#if defined(__x86_64__)

// Note [16-bit products]
// A weight w has 22 bits and a sign, too many for the fast multiplication of 16-bit pairs. Split as
// w = high * 2^11 + low, the sum of p * w is 2^11 * (sum of p * high) + (sum of p * low). Either
// sum may wrap around, and so may the shifted one, but all is exact modulo 2^32 and the whole fits
// 32 bits.
//
// The binary is built for any x86-64; a function so marked runs only where available() says so.
#define TRAINER_AVX2 __attribute__((target("avx2")))

struct Sums {
  __m256i high, low;
};

TRAINER_AVX2 inline Sums no_sums() { return {_mm256_setzero_si256(), _mm256_set1_epi32(kHalf)}; }

// `values` are pairs of 16-bit pixel values; `high` and `low` are the parts of the weights (as
// WeightPair has them) that go with each.
TRAINER_AVX2 inline void add_products(Sums& sums, __m256i values, __m256i high, __m256i low) {
  sums.high = _mm256_add_epi32(sums.high, _mm256_madd_epi16(values, high));
  sums.low = _mm256_add_epi32(sums.low, _mm256_madd_epi16(values, low));
}

TRAINER_AVX2 inline void add_products(Sums& sums, __m256i values, const WeightPair& pair) {
  add_products(sums, values, _mm256_set1_epi32(pair.high), _mm256_set1_epi32(pair.low));
}

TRAINER_AVX2 inline __m256i rounded(const Sums& sums) {
  const __m256i all = _mm256_add_epi32(_mm256_slli_epi32(sums.high, kLowBits), sums.low);
  return _mm256_srai_epi32(all, kWeightBits);
}

// Saturates 4 x 8 values to bytes; each 128-bit lane holds the values of its lane in order.
TRAINER_AVX2 inline __m256i to_bytes(__m256i a, __m256i b, __m256i c, __m256i d) {
  return _mm256_packus_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
}

// Two rows that are convolved at once: `upper` in the lower lane of a register.
struct RowPair {
  const std::uint8_t* upper = nullptr;
  const std::uint8_t* lower = nullptr;
};

TRAINER_AVX2 inline __m256i load(RowPair rows, std::size_t at) {
  const auto* upper = reinterpret_cast<const __m128i*>(rows.upper + at);
  const auto* lower = reinterpret_cast<const __m128i*>(rows.lower + at);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(upper)),
                                 _mm_loadu_si128(lower), 1);
}

// The bytes of each lane in `order`; where that is -1, a 0 completes the byte before to 16 bits.
TRAINER_AVX2 inline __m256i pair_up(__m256i pixels, __m128i order) {
  return _mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(order));
}

// One RGB pixel of each row, as 32-bit values (the fourth of a lane is of no use). Reads 16 bytes
// for every two pairs or part of them.
TRAINER_AVX2 inline __m256i convolve_rgb(RowPair rows, int first, const WeightPair* pairs,
                                         int count) {
  const __m128i pixels_0_1 =
      _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m128i pixels_2_3 =
      _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  Sums sums = no_sums();
  auto at = static_cast<std::size_t>(first) * 3;
  for (; count >= 2; count -= 2, pairs += 2, at += 12) {
    const __m256i pixels = load(rows, at);
    add_products(sums, pair_up(pixels, pixels_0_1), pairs[0]);
    add_products(sums, pair_up(pixels, pixels_2_3), pairs[1]);
  }
  if (count == 1) add_products(sums, pair_up(load(rows, at), pixels_0_1), pairs[0]);
  return rounded(sums);
}

TRAINER_AVX2 inline void store_12_bytes(__m128i bytes, std::uint8_t* to) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
  const int last = _mm_extract_epi32(bytes, 2);
  std::memcpy(to + 8, &last, sizeof last);
}

// Four pixels at a time; the last four overlap the ones before where the width is no multiple of 4.
// `fixed_count` is the number of pairs where it is known at compile time, else 0.
template <int fixed_count>
TRAINER_AVX2 void convolve_rgb_rows(RowPair rows, const Taps& taps, std::uint8_t* upper,
                                    std::uint8_t* lower) {
  const __m256i three_of_four = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
  const int count = fixed_count > 0 ? fixed_count : taps.width / 2;
  const std::size_t width = taps.first.size();
  for (std::size_t done = 0; done < width; done += 4) {
    const std::size_t x = std::min(done, width - 4);
    const int* first = taps.first.data() + x;
    const WeightPair* pairs = taps.pairs.data() + x * static_cast<std::size_t>(count);
    const __m256i a = convolve_rgb(rows, first[0], pairs, count);
    const __m256i b = convolve_rgb(rows, first[1], pairs + count, count);
    const __m256i c = convolve_rgb(rows, first[2], pairs + 2 * count, count);
    const __m256i d = convolve_rgb(rows, first[3], pairs + 3 * count, count);
    const __m256i bytes = _mm256_shuffle_epi8(to_bytes(a, b, c, d), three_of_four);
    store_12_bytes(_mm256_castsi256_si128(bytes), upper + x * 3);
    store_12_bytes(_mm256_extracti128_si256(bytes, 1), lower + x * 3);
  }
}

// Row y, from which `reach` bytes may be read: a copy in `spare` where `from` ends before.
const std::uint8_t* readable_row(const ImageView& from, int y, std::size_t reach,
                                 std::vector<std::uint8_t>& spare) {
  const std::size_t left =
      static_cast<std::size_t>(from.height - 1 - y) * from.stride + row_bytes_of(from);
  if (reach <= left) return row_of(from, y);
  spare.resize(std::max(spare.size(), reach));
  std::copy_n(row_of(from, y), left, spare.data());
  return spare.data();
}

// Loads of four pixels that cover the stored weights of an output position.
std::size_t loads_of(const Taps& taps) { return static_cast<std::size_t>((taps.width + 3) / 4); }

std::size_t furthest_of(const Taps& taps) {
  return static_cast<std::size_t>(std::max(taps.first.front(), taps.first.back()));
}

void avx2_rgb_rows(const ImageView& from, const Taps& taps, std::uint8_t* to) {
  using Convolve = void (*)(RowPair, const Taps&, std::uint8_t*, std::uint8_t*);
  static constexpr Convolve by_count[] = {convolve_rgb_rows<0>, convolve_rgb_rows<1>,
                                          convolve_rgb_rows<2>, convolve_rgb_rows<3>,
                                          convolve_rgb_rows<4>};
  thread_local std::vector<std::uint8_t> spares[2];
  const Convolve convolve = by_count[taps.width <= 8 ? taps.width / 2 : 0];
  const std::size_t reach = furthest_of(taps) * 3 + (loads_of(taps) - 1) * 12 + 16;
  const std::size_t row_bytes = taps.first.size() * 3;
  for (int y = 0; y < from.height; y += 2) {
    const int next = std::min(y + 1, from.height - 1);
    const RowPair rows = {readable_row(from, y, reach, spares[0]),
                          readable_row(from, next, reach, spares[1])};
    convolve(rows, taps, to + static_cast<std::size_t>(y) * row_bytes,
             to + static_cast<std::size_t>(next) * row_bytes);
  }
}

constexpr std::size_t kLanes = 8;  // 32-bit values of a register

// The weight pairs of each eight output positions side by side, for each pair the eight high parts
// and then the eight low ones. The last eight positions overlap the ones before.
void interleave_weights(const Taps& taps, std::vector<std::int32_t>& interleaved) {
  const std::size_t width = taps.first.size();
  const std::size_t count = 2 * loads_of(taps);
  const auto stored = static_cast<std::size_t>(taps.width / 2);
  interleaved.assign((width + kLanes - 1) / kLanes * count * 2 * kLanes, 0);
  std::int32_t* to = interleaved.data();
  for (std::size_t done = 0; done < width; done += kLanes) {
    const WeightPair* pairs = taps.pairs.data() + std::min(done, width - kLanes) * stored;
    for (std::size_t k = 0; k < count; ++k, to += 2 * kLanes) {
      for (std::size_t i = 0; i < kLanes && k < stored; ++i) {
        to[i] = pairs[i * stored + k].high;
        to[kLanes + i] = pairs[i * stored + k].low;
      }
    }
  }
}

std::int32_t load_4_bytes(const std::uint8_t* from) {
  std::int32_t bytes = 0;
  std::memcpy(&bytes, from, sizeof bytes);
  return bytes;
}

TRAINER_AVX2 inline __m256i load_8_weights(const std::int32_t* weights) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights));
}

// Eight grey pixels of a row, as 32-bit values; first[i] is where the taps of the i-th start.
TRAINER_AVX2 inline __m256i convolve_grey(const std::uint8_t* row, const int* first,
                                          const std::int32_t* weights, std::size_t loads) {
  const __m128i pixels_0_1 =
      _mm_setr_epi8(0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13, -1);
  const __m128i pixels_2_3 =
      _mm_setr_epi8(2, -1, 3, -1, 6, -1, 7, -1, 10, -1, 11, -1, 14, -1, 15, -1);
  Sums sums = no_sums();
  for (; loads > 0; --loads, row += 4, weights += 4 * kLanes) {
    const __m256i pixels = _mm256_setr_epi32(
        load_4_bytes(row + first[0]), load_4_bytes(row + first[1]), load_4_bytes(row + first[2]),
        load_4_bytes(row + first[3]), load_4_bytes(row + first[4]), load_4_bytes(row + first[5]),
        load_4_bytes(row + first[6]), load_4_bytes(row + first[7]));
    add_products(sums, pair_up(pixels, pixels_0_1), load_8_weights(weights),
                 load_8_weights(weights + kLanes));
    add_products(sums, pair_up(pixels, pixels_2_3), load_8_weights(weights + 2 * kLanes),
                 load_8_weights(weights + 3 * kLanes));
  }
  return rounded(sums);
}

TRAINER_AVX2 void avx2_grey_rows(const ImageView& from, const Taps& taps, std::uint8_t* to) {
  thread_local std::vector<std::uint8_t> spare;
  thread_local std::vector<std::int32_t> interleaved;
  interleave_weights(taps, interleaved);
  const std::size_t loads = loads_of(taps);
  const std::size_t reach = furthest_of(taps) + loads * 4;
  const std::size_t width = taps.first.size();
  for (int y = 0; y < from.height; ++y, to += width) {
    const std::uint8_t* row = readable_row(from, y, reach, spare);
    const std::int32_t* weights = interleaved.data();
    for (std::size_t done = 0; done < width; done += kLanes, weights += loads * 4 * kLanes) {
      const std::size_t x = std::min(done, width - kLanes);
      const __m256i values = convolve_grey(row, taps.first.data() + x, weights, loads);
      const __m256i bytes = to_bytes(values, values, values, values);
      const int halves[] = {_mm256_extract_epi32(bytes, 0), _mm256_extract_epi32(bytes, 4)};
      std::memcpy(to + x, halves, sizeof halves);
    }
  }
}

void avx2_rows(const ImageView& from, const Taps& taps, std::uint8_t* to) {
  if (from.channels == 3 && taps.first.size() >= 4) return avx2_rgb_rows(from, taps, to);
  if (from.channels == 1 && taps.first.size() >= kLanes) return avx2_grey_rows(from, taps, to);
  portable_rows(from, taps, to);
}

// 32 bytes of the row that `count` rows from `rows` on make.
TRAINER_AVX2 inline __m256i combine_32_bytes(const std::uint8_t* rows, std::size_t stride,
                                             const WeightPair* pairs, int count) {
  const __m256i zero = _mm256_setzero_si256();
  Sums sums[4] = {no_sums(), no_sums(), no_sums(), no_sums()};
  for (int k = 0; k < count; k += 2, ++pairs, rows += 2 * stride) {
    // The second weight of an odd last pair is 0, whatever its row.
    const std::uint8_t* next = k + 1 < count ? rows + stride : rows;
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next));
    const __m256i front = _mm256_unpacklo_epi8(a, b);
    const __m256i back = _mm256_unpackhi_epi8(a, b);
    add_products(sums[0], _mm256_unpacklo_epi8(front, zero), *pairs);
    add_products(sums[1], _mm256_unpackhi_epi8(front, zero), *pairs);
    add_products(sums[2], _mm256_unpacklo_epi8(back, zero), *pairs);
    add_products(sums[3], _mm256_unpackhi_epi8(back, zero), *pairs);
  }
  // Packing within lanes undoes the unpacking within lanes.
  return to_bytes(rounded(sums[0]), rounded(sums[1]), rounded(sums[2]), rounded(sums[3]));
}

TRAINER_AVX2 void avx2_columns(const ImageView& from, const Taps& taps, std::uint8_t* to) {
  constexpr std::size_t block = 32;
  const std::size_t row_bytes = row_bytes_of(from);
  if (row_bytes < block) return portable_columns(from, taps, to);
  const WeightPair* pairs = taps.pairs.data();
  for (std::size_t y = 0; y < taps.first.size(); ++y, pairs += taps.width / 2, to += row_bytes) {
    const std::uint8_t* rows = row_of(from, taps.first[y]);
    // The last block overlaps the one before where the row is no multiple of it.
    for (std::size_t done = 0; done < row_bytes; done += block) {
      const std::size_t i = std::min(done, row_bytes - block);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                          combine_32_bytes(rows + i, from.stride, pairs, taps.count[y]));
    }
  }
}

#endif

}  // namespace

bool available(Instructions instructions) {
#if defined(__x86_64__)
  if (instructions == Instructions::avx2) return __builtin_cpu_supports("avx2") != 0;
#endif
  return instructions == Instructions::portable;
}

Passes passes([[maybe_unused]] Instructions instructions) {
#if defined(__x86_64__)
  if (instructions == Instructions::avx2) return {avx2_rows, avx2_columns};
#endif
  return {portable_rows, portable_columns};
}

}  // namespace trainer::data

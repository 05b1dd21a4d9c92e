// The two passes of resample() for each instruction set. Internal to the room.
#pragma once

#include <cstdint>
#include <vector>

#include "data/images/filter.h"
#include "data/images/resample.h"

namespace trainer::data {

using filter::kWeightBits;
constexpr int kLowBits = 11;

// Two neighbouring weights w0 and w1, each split into high * 2^11 + low with 0 <= low < 2^11.
// `high` holds the high part of w0 in its lower 16 bits and that of w1 in its upper ones; `low`
// likewise.
struct WeightPair {
  std::int32_t high = 0;
  std::int32_t low = 0;
};

// What one pass computes: for each output position, in the order in which they are written, the
// first input position and the weights of `count` positions from there on.
struct Taps {
  int width = 0;  // weights stored for each output position, even; those beyond `count` are 0
  std::vector<int> first;
  std::vector<int> count;
  std::vector<std::int32_t> weights;
  std::vector<WeightPair> pairs;  // `weights`, two at a time
};

enum class Instructions { portable, avx2 };

// Whether this machine has them.
bool available(Instructions instructions);

// Convolves `from` in one direction into packed pixels at `to`. Reads nothing beyond the last pixel
// of `from` and writes nothing beyond its result; the values do not depend on the instructions.
using Pass = void (*)(const ImageView& from, const Taps& taps, std::uint8_t* to);

struct Passes {
  Pass rows = nullptr;     // each row along itself; a result is taps.first.size() pixels wide
  Pass columns = nullptr;  // rows combined; a result is taps.first.size() pixels high
};

// `instructions` are available.
Passes passes(Instructions instructions);

// As resample() without `instructions`, which takes the fastest available ones.
void resample(const ImageView& from, const Resampling& how, std::uint8_t* to,
              Instructions instructions);

}  // namespace trainer::data

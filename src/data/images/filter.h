// The filters of resizing, the same on the CPU and in CUDA kernels: Pillow's positions and weights,
// operation by operation, since another order would round some weights differently.
#pragma once

#include <cmath>
#include <cstdint>

#include "data/images/anywhere.h"

namespace trainer::data::filter {

constexpr int kWeightBits = 22;

TRAINER_ANYWHERE double triangle(double x) {
  const double distance = x < 0.0 ? -x : x;
  return distance < 1.0 ? 1.0 - distance : 0.0;
}

// Keys' cubic convolution kernel with a = -1/2 (IEEE Trans. ASSP 29, 1981).
TRAINER_ANYWHERE double cubic(double x) {
  constexpr double a = -0.5;
  x = x < 0.0 ? -x : x;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

struct Interval {
  int first = 0;
  int count = 0;
};

// One direction of a resampling. Input positions count from `origin`.
struct Axis {
  int origin = 0;       // of the smallest whole-numbered interval around the box, in the picture
  int extent = 0;       // of that interval
  double offset = 0;    // of the box in it
  double scale = 0;     // input positions for each output position
  double stretch = 0;   // of the filter: at least 1, more when shrinking
  double support = 0;   // of the stretched filter, to each side
  bool changes = true;  // else output position i is input position i
  bool bicubic = false;
  int size = 0;     // of the whole output
  Interval window;  // of the output
};

TRAINER_ANYWHERE Axis make_axis(double start, double length, int size, Interval window,
                                bool bicubic) {
  Axis axis;
  axis.origin = static_cast<int>(floor(start));
  axis.extent = static_cast<int>(ceil(start + length)) - axis.origin;
  axis.offset = start - axis.origin;
  axis.scale = length / size;
  axis.stretch = axis.scale > 1.0 ? axis.scale : 1.0;
  axis.support = axis.stretch * (bicubic ? 2.0 : 1.0);
  axis.changes = axis.offset != 0.0 || length != size;
  axis.bicubic = bicubic;
  axis.size = size;
  axis.window = window;
  return axis;
}

// The most weights that an output position has.
TRAINER_ANYWHERE int most_taps(const Axis& axis) {
  return static_cast<int>(ceil(axis.support)) * 2 + 1;
}

TRAINER_ANYWHERE double centre_of(const Axis& axis, int position) {
  return axis.offset + (position + 0.5) * axis.scale;
}

// The input positions under the filter that is centred at `centre`.
TRAINER_ANYWHERE Interval under_filter(const Axis& axis, double centre) {
  int first = static_cast<int>(centre - axis.support + 0.5);
  if (first < 0) first = 0;
  int end = static_cast<int>(centre + axis.support + 0.5);
  if (end > axis.extent) end = axis.extent;
  return {first, end - first};
}

// The window's i-th output position in the order of writing.
TRAINER_ANYWHERE int position_of(const Axis& axis, int i, bool mirror) {
  return axis.window.first + (mirror ? axis.window.count - 1 - i : i);
}

// The weight of an input position before all of them are made to add up to one.
TRAINER_ANYWHERE double weight_of(const Axis& axis, double centre, int position) {
  const double x = (position - centre + 0.5) * (1.0 / axis.stretch);
  return axis.bicubic ? cubic(x) : triangle(x);
}

// A weight of all that add up to `sum`, in fixed point.
TRAINER_ANYWHERE std::int32_t fixed_point(double weight, double sum) {
  const double value = (sum != 0.0 ? weight / sum : weight) * (1 << kWeightBits);
  return static_cast<std::int32_t>(value < 0.0 ? value - 0.5 : value + 0.5);
}

// The order of the two passes that Pillow 13 chooses. It depends on sizes of the whole, so that
// every window has the whole's pixels.
TRAINER_ANYWHERE bool columns_first(const Axis& x, const Axis& y) {
  const int lower = y.extent - y.size;
  const int narrower = x.extent - x.size;
  return lower > 0 && lower > 2 * narrower;
}

TRAINER_ANYWHERE std::uint8_t round_off(std::int32_t sum) {
  const std::int32_t value = sum >> kWeightBits;
  return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

}  // namespace trainer::data::filter

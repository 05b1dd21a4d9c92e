#include "data/resample.h"

#include <algorithm>
#include <cmath>

namespace trainer::data {
namespace {

constexpr int kWeightBits = 22;

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys' cubic convolution kernel with a = -1/2 (IEEE Trans. ASSP 29, 1981).
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return (((x - 5.0) * x + 8.0) * x - 4.0) * a;
  return 0.0;
}

// For each output position the first input position and the weights of the ones from there on.
struct Taps {
  int width = 0;  // weights stored for each output position
  std::vector<int> first;
  std::vector<int> count;
  std::vector<std::int32_t> weights;
  std::vector<double> exact;
};

void make_taps(int in, int out, config::Interpolation interpolation, Taps& taps) {
  const bool bilinear = interpolation == config::Interpolation::bilinear;
  const double scale = static_cast<double>(in) / out;
  const double stretch = std::max(scale, 1.0);
  const double support = (bilinear ? 1.0 : 2.0) * stretch;
  taps.width = static_cast<int>(std::ceil(support)) * 2 + 1;
  taps.first.resize(static_cast<std::size_t>(out));
  taps.count.resize(static_cast<std::size_t>(out));
  taps.weights.assign(static_cast<std::size_t>(out) * static_cast<std::size_t>(taps.width), 0);
  taps.exact.resize(static_cast<std::size_t>(taps.width));
  for (int i = 0; i < out; ++i) {
    const double centre = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(centre - support + 0.5));
    const int count = std::min(in, static_cast<int>(centre + support + 0.5)) - first;
    double sum = 0.0;
    for (int k = 0; k < count; ++k) {
      const double x = (k + first - centre + 0.5) * (1.0 / stretch);
      const double weight = bilinear ? triangle(x) : cubic(x);
      taps.exact[static_cast<std::size_t>(k)] = weight;
      sum += weight;
    }
    std::int32_t* weights =
        taps.weights.data() + static_cast<std::size_t>(i) * static_cast<std::size_t>(taps.width);
    for (int k = 0; k < count; ++k) {
      double weight = taps.exact[static_cast<std::size_t>(k)];
      if (sum != 0.0) weight /= sum;
      weight *= 1 << kWeightBits;
      weights[k] = static_cast<std::int32_t>(weight < 0.0 ? weight - 0.5 : weight + 0.5);
    }
    taps.first[static_cast<std::size_t>(i)] = first;
    taps.count[static_cast<std::size_t>(i)] = count;
  }
}

std::uint8_t round_off(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

template <int channels>
void resample_row(const std::uint8_t* from, const Taps& taps, int width, std::uint8_t* to) {
  const std::int32_t* weights = taps.weights.data();
  for (int x = 0; x < width; ++x, weights += taps.width, to += channels) {
    const std::uint8_t* pixel = from + taps.first[static_cast<std::size_t>(x)] * channels;
    std::int32_t sums[channels];
    for (std::int32_t& sum : sums) sum = kHalf;
    const int count = taps.count[static_cast<std::size_t>(x)];
    for (int k = 0; k < count; ++k, pixel += channels) {
      for (int channel = 0; channel < channels; ++channel)
        sums[channel] += pixel[channel] * weights[k];
    }
    for (int channel = 0; channel < channels; ++channel) to[channel] = round_off(sums[channel]);
  }
}

void resample_rows(const ImageView& from, int width, const Taps& taps, std::uint8_t* to) {
  const std::size_t row_bytes =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(from.channels);
  for (int y = 0; y < from.height; ++y) {
    const std::uint8_t* row = from.pixels + static_cast<std::size_t>(y) * from.stride;
    if (from.channels == 3)
      resample_row<3>(row, taps, width, to);
    else
      resample_row<1>(row, taps, width, to);
    to += row_bytes;
  }
}

// Whole rows at a time, so that the inner loop runs along memory.
void resample_columns(const std::uint8_t* from, std::size_t stride, std::size_t row_bytes,
                      int height, const Taps& taps, std::vector<std::int32_t>& sums,
                      std::uint8_t* to) {
  sums.resize(row_bytes);
  const std::int32_t* weights = taps.weights.data();
  for (int y = 0; y < height; ++y, weights += taps.width, to += row_bytes) {
    std::fill(sums.begin(), sums.end(), kHalf);
    const int count = taps.count[static_cast<std::size_t>(y)];
    const std::uint8_t* row =
        from + static_cast<std::size_t>(taps.first[static_cast<std::size_t>(y)]) * stride;
    for (int k = 0; k < count; ++k, row += stride) {
      const std::int32_t weight = weights[k];
      for (std::size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
    }
    for (std::size_t i = 0; i < row_bytes; ++i) to[i] = round_off(sums[i]);
  }
}

// One thread's memory.
struct Workspace {
  Taps taps;
  std::vector<std::uint8_t> rows;
  std::vector<std::int32_t> sums;
};

}  // namespace

ImageView view_of(const Image& image, int top, int left, int height, int width) {
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t stride = static_cast<std::size_t>(image.width) * channels;
  return {image.pixels.data() + static_cast<std::size_t>(top) * stride +
              static_cast<std::size_t>(left) * channels,
          height, width, image.channels, stride};
}

void resample(const ImageView& from, int height, int width, config::Interpolation interpolation,
              Image& to) {
  thread_local Workspace workspace;
  const std::size_t row_bytes =
      static_cast<std::size_t>(width) * static_cast<std::size_t>(from.channels);
  to.height = height;
  to.width = width;
  to.channels = from.channels;
  to.pixels.resize(row_bytes * static_cast<std::size_t>(height));
  const std::uint8_t* rows = from.pixels;
  std::size_t stride = from.stride;
  if (width != from.width) {
    // The result of the first pass goes straight to `to` where there is no second.
    std::uint8_t* target = to.pixels.data();
    if (height != from.height) {
      workspace.rows.resize(row_bytes * static_cast<std::size_t>(from.height));
      target = workspace.rows.data();
    }
    make_taps(from.width, width, interpolation, workspace.taps);
    resample_rows(from, width, workspace.taps, target);
    rows = target;
    stride = row_bytes;
  }
  if (height != from.height) {
    make_taps(from.height, height, interpolation, workspace.taps);
    resample_columns(rows, stride, row_bytes, height, workspace.taps, workspace.sums,
                     to.pixels.data());
  } else if (width == from.width) {
    for (int y = 0; y < height; ++y)
      std::copy_n(rows + static_cast<std::size_t>(y) * stride, row_bytes,
                  to.pixels.data() + static_cast<std::size_t>(y) * row_bytes);
  }
}

}  // namespace trainer::data

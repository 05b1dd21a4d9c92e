// Resizing by separable convolution, with Pillow's results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/experiment.h"
#include "data/dataset.h"

namespace trainer::data {

// Part of an image, not owned. `stride` is the distance of its rows in bytes.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  int height = 0;
  int width = 0;
  int channels = 0;
  std::size_t stride = 0;
};

// The rectangle at (top, left), which lies within `image`.
ImageView view_of(const Image& image, int top, int left, int height, int width);

// `from` resized to height x width into `to`, which does not hold `from`'s pixels. The filter
// widens with the scale when shrinking (antialiasing). Weights are 22-bit fixed point and each pass
// rounds to 8 bits, horizontal first, as Pillow's Image.resize does for 8-bit images: equal to the
// bit.
void resample(const ImageView& from, int height, int width, config::Interpolation interpolation,
              Image& to);

}  // namespace trainer::data

// Resizing by separable convolution, with Pillow's results.
#pragma once

#include <cstddef>
#include <cstdint>

#include "config/experiment.h"
#include "data/dataset.h"

namespace trainer::data {

// Part of a picture, not owned: its first pixel is pixel (top, left) of the picture. `stride` is
// the distance of its rows in bytes.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
  std::size_t stride = 0;
};

// The whole of `image` as the part at (top, left) of a picture.
ImageView view_of(const Image& image, int top = 0, int left = 0);

// A box of a picture, in its pixels; may have fractions.
struct Box {
  double top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Box&) const = default;
};

// `box` becomes height x width pixels, of which those in `window` are made; `mirror` swaps left and
// right of what is made. The convolution sees no pixel outside the smallest whole-numbered
// rectangle around the box (as if the picture were cropped to it first).
struct Resampling {
  Box box;
  int height = 0;
  int width = 0;
  Rectangle window;
  config::Interpolation interpolation = config::Interpolation::bilinear;
  bool mirror = false;
  bool operator==(const Resampling&) const = default;
};

// The pixels of the picture that the window's values depend on.
Rectangle needed(const Resampling& how);

// Makes the window into `to` (window.height * window.width * channels bytes, packed), which does
// not overlap `from`; `from` holds at least needed(how) and has 1 or 3 channels. The filter widens
// with the scale when shrinking (antialiasing). Weights are 22-bit fixed point and each pass rounds
// to 8 bits, the horizontal one first unless the height shrinks by more than twice as many pixels
// as the width does, as in Image.resize of Pillow 13 for 8-bit images: equal to the bit for boxes
// of whole numbers. A direction in which nothing changes is not filtered.
void resample(const ImageView& from, const Resampling& how, std::uint8_t* to);

}  // namespace trainer::data

// Crops and mirrors of 8-bit images.
#pragma once

#include "data/dataset.h"

namespace trainer::data {

// The height x width rectangle at (top, left) of `image` into `to`; what lies outside the image is
// black, so a crop may start before it or reach beyond it.
void crop(const Image& image, int top, int left, int height, int width, Image& to);

// Left and right swapped, in place.
void flip_horizontally(Image& image);

}  // namespace trainer::data

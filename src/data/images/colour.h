// Changes of an image's colours, with the values that torchvision gets for PIL images. On grey
// images saturation and hue change nothing.
#pragma once

#include "data/dataset.h"

namespace trainer::data {

// `pixels` of height x width with `from` channels as an image with `to` channels, 1 or 3 each: grey
// is copied to all three, colours become ITU-R 601-2 luma.
void convert_channels(Bytes pixels, int height, int width, int from, int to, Image& image);

// A factor of 1 changes nothing. Brightness blends with black, contrast with the mean grey, and
// saturation with the grey image; above 1 it moves away from it.
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);

// Turns the hue by `factor` of the colour circle, -0.5 to 0.5, through 8-bit HSV.
void adjust_hue(Image& image, double factor);

}  // namespace trainer::data

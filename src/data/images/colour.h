// Changes of an image's colours, with the values that torchvision gets for PIL images. On grey
// images saturation and hue change nothing.
#pragma once

#include "data/dataset.h"

namespace trainer::data {

// A factor of 1 changes nothing. Brightness blends with black, contrast with the mean grey, and
// saturation with the grey image; above 1 it moves away from it.
void adjust_brightness(Image& image, double factor);
void adjust_contrast(Image& image, double factor);
void adjust_saturation(Image& image, double factor);

// Turns the hue by `factor` of the colour circle, -0.5 to 0.5, through 8-bit HSV.
void adjust_hue(Image& image, double factor);

}  // namespace trainer::data

// The orientation that a camera noted in a JPEG's EXIF block.
#pragma once

#include "data/dataset.h"
#include "data/files.h"

namespace trainer::data {

// Tag 0x0112 of the first image directory of an APP1 segment's content ("Exif", two zeros, then a
// TIFF structure): 1..8, and 1 (upright) where there is none or the block is malformed.
int exif_orientation(Bytes segment);

// Turns and mirrors `image` upright.
void apply_orientation(int orientation, Image& image);

}  // namespace trainer::data

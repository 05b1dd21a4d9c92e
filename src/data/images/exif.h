// The orientation that a camera noted, and the turn that it asks for.
#pragma once

#include "data/dataset.h"

namespace trainer::data {

// Tag 0x0112 of the first image directory of a TIFF structure: 1..8, and 1 (upright) where there is
// none or the structure is malformed.
int tiff_orientation(Bytes structure);

// The same of a JPEG APP1 segment's content: "Exif", two zeros, then a TIFF structure. 1 for
// another segment.
int exif_orientation(Bytes segment);
bool has_exif_prefix(Bytes segment);

// Turns and mirrors `image` upright. With orientation 5..8 height and width change places.
void apply_orientation(int orientation, Image& image);
constexpr bool swaps_sides(int orientation) { return orientation >= 5; }

// The rectangle of the stored picture that `apply_orientation` turns into `upright`, a rectangle of
// the upright picture of height x width pixels.
Rectangle stored_rectangle(const Rectangle& upright, int orientation, int height, int width);

}  // namespace trainer::data

// PBM, PGM and PPM, as text (P1 to P3) and binary (P4 to P6). Read here and not by the images
// module: OpenCV does not scale binary values by the largest one that the header names.
#pragma once

#include "data/dataset.h"
#include "data/images/decode.h"

namespace trainer::data {

// Values are scaled from the file's largest one to 255 and rounded. Throws Error(data) with the
// reason where the data is damaged or ends early; the size has been held to the limit before.
void decode_pnm(Bytes bytes, int channels, Image& image);

}  // namespace trainer::data

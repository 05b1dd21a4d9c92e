// Whether nvJPEG's hardware can take a JPEG file. No torch, no CUDA here.
#pragma once

#include <optional>

#include "data/dataset.h"

namespace trainer::data {

// Of a baseline JPEG in one scan: grey, or YCbCr with chroma at full or half resolution in each
// direction.
struct JpegLayout {
  int height = 0;  // as stored
  int width = 0;
  int horizontal = 1;  // luma samples for one chroma sample across: 1 or 2
  int vertical = 1;    // and down: 1 or 2
};

// From the markers alone. nullopt where the hardware does not take it (progressive, CMYK, RGB,
// other samplings) or where the file looks damaged (no end of image behind its scan): libjpeg-turbo
// then says what is wrong. Never throws and never reads outside `bytes`.
std::optional<JpegLayout> hardware_layout(Bytes bytes);

}  // namespace trainer::data

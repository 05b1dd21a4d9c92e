// JPEG by libjpeg-turbo.
#pragma once

#include <cstdint>

#include "data/dataset.h"
#include "data/files.h"

namespace trainer::data {

// Decodes `bytes` to RGB into `image`. Grey becomes RGB; CMYK and YCCK are taken as Adobe writes
// them (inverted), as Pillow does. The EXIF orientation is applied. Throws Error(data) with the
// reason for what is no JPEG, damaged, or ends early; other defects that the library can correct
// are counted. Thread-safe.
void decode_jpeg(Bytes bytes, Image& image);

// Corrected defects in all JPEG data decoded by this process.
std::int64_t jpeg_warnings();

}  // namespace trainer::data

// Any image file's bytes to pixels: JPEG here, the other formats by a module that is loaded when
// the first of them turns up.
#pragma once

#include "data/dataset.h"
#include "data/files.h"

namespace trainer::data {

enum class Format { unknown, jpeg, png, bmp, webp, tiff, pnm };

// By the first bytes, whatever the file is called.
Format format_of(Bytes bytes);

// Decodes to 8-bit RGB into `image`. Grey becomes RGB, 16-bit values are rescaled to 8, and alpha
// is composited over black. Throws Error(data) with the reason. Thread-safe.
void decode_image(Bytes bytes, Image& image);

}  // namespace trainer::data

// The headers of the formats other than JPEG.
#pragma once

#include "data/images/decode.h"

namespace trainer::data {

struct FileHeader {
  std::uint32_t height = 0;  // as stored, not yet held to any limit
  std::uint32_t width = 0;
  int orientation = 1;  // as it stands in the file
  int components = 3;
  int bits = 8;
  int transparent_grey = -1;   // PNG: the one grey, in the file's bits, that is transparent
  bool premultiplied = false;  // the module's decoder multiplies colours by their alpha
};

// Each throws Error(data) with the reason where the header is damaged or of a kind that is not
// read, and reads nothing outside `bytes`, which begin with the format's magic.
FileHeader png_header(Bytes bytes);
FileHeader bmp_header(Bytes bytes);
FileHeader webp_header(Bytes bytes);
FileHeader tiff_header(Bytes bytes);
FileHeader pnm_header(Bytes bytes);

// Throws Error(data) where the file ends before the data that its structure announces. The decoders
// fill in what is missing, some without a word.
void require_whole_png(Bytes bytes);
void require_whole_bmp(Bytes bytes);
void require_whole_webp(Bytes bytes);
void require_whole_tiff(Bytes bytes);

}  // namespace trainer::data

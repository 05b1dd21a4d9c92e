// Any image file's bytes to pixels: JPEG and PNM here, PNG, BMP, WebP and TIFF by a module that is
// loaded when the first of them turns up.
//
// Values of 16 bits become v * 255 / 65535, rounded (Pillow cuts the low byte off, or clips). CMYK
// is taken as Adobe writes it, whoever wrote it, as in Pillow. Of an animated PNG the still picture
// is read; an animated WebP is an error.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "data/dataset.h"

namespace trainer::data {

enum class Format { unknown, jpeg, png, bmp, webp, tiff, pnm };

// By the first bytes, whatever the file is called.
Format format_of(Bytes bytes);
const char* name_of(Format format);

struct DecodeOptions {
  int channels = 3;                                 // 3: RGB, 1: grey (ITU-R 601 luma of RGB)
  std::array<std::uint8_t, 3> background{};         // what transparent pixels are composited over
  std::int64_t max_pixels = std::int64_t{1} << 27;  // a larger picture is refused by its header
  // Turn the picture as its EXIF data says. A TIFF's orientation is part of how its rows are stored
  // and always applied.
  bool exif_orientation = true;
};

// What a file's header says. Height and width are those of the upright picture, that is after the
// orientation where it is applied.
struct ImageInfo {
  Format format = Format::unknown;
  int height = 0;
  int width = 0;
  // EXIF's 1..8: how the stored rows must be turned; 1 where it is not applied.
  int orientation = 1;
  int components = 0;        // channels in the file; a palette counts as 3 (4 with transparency)
  int bits = 8;              // of each
  bool progressive = false;  // JPEG
};

// The header alone, in memory bounded by it. Throws Error(data) with the reason where it is
// damaged, of no known format, or larger than max_pixels.
ImageInfo read_header(Bytes bytes, const DecodeOptions& options);

// What `read` made of a picture: `Image` holds the rectangle at (top, left) of the picture reduced
// by `shrink`.
struct Part {
  int top = 0;
  int left = 0;
  int shrink = 1;
  int height = 0;  // of the whole reduced picture: ceil(height / shrink)
  int width = 0;
};

// One thread's decoder; keeps its memory from image to image.
class Decoder {
 public:
  explicit Decoder(const DecodeOptions& options);
  ~Decoder();
  Decoder(Decoder&&) noexcept;

  // Reads the header; `bytes` must stay until the last `read`. Throws as read_header.
  const ImageInfo& open(Bytes bytes);
  // Decodes `region` of the upright picture, which lies within it and is not empty, in pixels of
  // the unreduced picture, and reduced by `shrink` (1, 2, 4 or 8) where the format can: JPEG does
  // so in its transform and makes the pixels that cover the region, no others; the other formats
  // ignore both and give the whole. The pixels are those of the whole picture decoded with that
  // shrink, to the bit, whatever the region. Where the orientation mirrors a reduced picture whose
  // size is no multiple of `shrink`, its pixels lie by less than one of them off the grid that
  // begins at the upright picture's edge; the part covers the region on either grid.
  //
  // May be called several times after an `open`. Throws Error(data) with the reason where the file
  // is damaged or cut short; where a file is cut, that does not depend on the region. Damage in the
  // middle of a JPEG is seen where it lies in or above the region.
  Part read(const Rectangle& region, int shrink, Image& image);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The whole picture.
void decode_image(Bytes bytes, const DecodeOptions& options, Image& image);

// Corrected defects in all JPEG data decoded by this process.
std::int64_t jpeg_warnings();

}  // namespace trainer::data

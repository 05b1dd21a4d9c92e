// JPEG by libjpeg-turbo.
#pragma once

#include <cstdint>
#include <memory>

#include "data/dataset.h"
#include "data/images/decode.h"

namespace trainer::data {

// One thread's JPEG decoder; keeps its memory from picture to picture. Knows nothing of
// orientation: every size and place is that of the stored rows.
//
// Grey and colour come as options.channels asks. CMYK and YCCK become RGB taken as Adobe writes
// them, 255 standing for no ink, whether or not there is an Adobe marker, as in Pillow. Without
// that marker four components are CMYK.
class JpegDecoder {
 public:
  explicit JpegDecoder(const DecodeOptions& options);
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;

  // The header, with the EXIF orientation as it stands in the file. `bytes` must stay until the
  // last `read`. Throws Error(data) where it is damaged or the picture has more than max_pixels.
  ImageInfo open(Bytes bytes);

  // Makes exactly `window` of the picture reduced by `shrink` (1, 2, 4 or 8; its size is
  // reduced_size of the stored one) into `image`: the same pixels, to the bit, as those of the
  // whole reduced picture. The window lies within it and is not empty. Throws Error(data) where
  // data that the window needs is damaged beyond correction or ends early, and where the file has
  // no end marker, whatever the window; damage below the window is not seen. Other defects, which
  // the library can correct, are counted. May be called again.
  void read(const Rectangle& window, int shrink, Image& image);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Rows or columns of a picture of `size` rows or columns reduced by `shrink`.
constexpr int reduced_size(int size, int shrink) { return (size + shrink - 1) / shrink; }

}  // namespace trainer::data

// A faster reader of the Huffman codes of sequential JPEG files, which takes the place of
// libjpeg-turbo's inside it: four fifths of the time that photographs take are spent there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"

struct jpeg_decompress_struct;

namespace trainer::data {

// Note [Entropy decoding]: libjpeg is made of parts that are called through pointers, and the one
// that reads coefficients (jpeg_entropy_decoder, ITU T.81 section F.2.2) can be replaced. This one
// is faster because it takes the stuffed bytes out beforehand, finds a coefficient's code and its
// value in one look-up, and passes over blocks that nobody needs by several codes at once. It knows
// only good data: at the first oddity it gives up, and the picture is decoded again by the library
// alone, whose pixels and messages for damaged data are so the same with and without it.
class JpegEntropy {
 public:
  JpegEntropy();
  ~JpegEntropy();
  JpegEntropy(const JpegEntropy&) = delete;
  JpegEntropy& operator=(const JpegEntropy&) = delete;

  // After jpeg_start_decompress (and jpeg_crop_scanline), before any row is read: reads the codes
  // of this picture from now on, out of `scan`, which starts at the first byte of the first scan.
  // Uses info.client_data. Does nothing where the picture is not of a kind that it reads.
  void take_over(jpeg_decompress_struct& info, Bytes scan);
  // Whether it gave up on the picture, which it reports by the library's error_exit.
  bool gave_up() const { return gave_up_; }
  void reset() { gave_up_ = false; }

 private:
  struct State;
  std::unique_ptr<State> state_;
  bool gave_up_ = false;
};

}  // namespace trainer::data

// CUDA kernels of the input pipeline, as plain functions: no torch and no CUDA header here, so that
// the same declarations serve nvcc and the C++ compiler. Only where TRAINER_KERNELS is defined.
// Pointers are to device memory; all run on `stream` (a cudaStream_t) and do not wait. They return
// a message of the CUDA runtime, or nullptr.
#pragma once

#include <cstdint>

namespace trainer::data::kernels {

// One picture on its way from JPEG planes to a row of the batch. Rectangles are as in Resampling.
struct Picture {
  // The planes as nvJPEG gives them, without padding.
  const std::uint8_t* luma;
  const std::uint8_t* blue;  // Cb
  const std::uint8_t* red;   // Cr
  int height, width;         // as stored
  int components;            // 1: luma alone
  int across, down;          // luma samples for one of chroma
  int orientation;           // EXIF's
  // The part of the upright picture that is needed, and where its pixels go, packed.
  int region_top, region_left, region_height, region_width;
  std::uint8_t* region;
  // The resize: box, grid and window.
  double box_top, box_left, box_height, box_width;
  int grid_height, grid_width;
  int window_top, window_left, window_height, window_width;
  int bicubic, mirror;
  // Memory for it. For each row or column of the window: first input position, count, then
  // `*_taps` weights.
  int row_taps, column_taps;
  std::int32_t* rows;
  std::int32_t* columns;
  std::uint8_t* between;  // the result of the first pass: with columns_first window_height x
                          // region_width pixels, else region_height x window_width
  int columns_first;
  // Where the window lands in the image of the batch.
  int top, left;
  std::uint8_t* image;
  // Changes of colour: which of the four in which order (-1: none), and their factors.
  int order[4];
  double factors[4];
};

// `count` pictures, in device memory, into images of height x width with `channels` (1 or 3). The
// sizes are the largest of any picture.
struct Largest {
  int region_pixels = 0;
  int between_pixels = 0;
  int taps = 0;  // rows or columns of a window
  bool jitter = false;
};
const char* build(const Picture* pictures, int count, const Largest& largest, int height, int width,
                  int channels, void* stream);

enum class Type { float32, bfloat16, float16 };

// How a micro-batch becomes model input: value = (pixel - shift) * factor by channel, erased pixels
// 0, then mixed with the partner's (position p with p^1 of the step's samples), then cast.
struct Preparation {
  const std::uint8_t* images;  // u8 [size, height, width, channels]: the whole step
  const std::int32_t* erase;   // [size, 4], or null
  int height, width, channels;
  float shift[4], factor[4];
  std::int64_t size, begin, end;
  int mix;                                       // 0 none, 1 mixup, 2 cutmix
  float own, other;                              // weights of mixup
  int box_top, box_left, box_height, box_width;  // of cutmix
  bool channels_last;
  Type type;
  void* input;  // [end - begin, channels, height, width], in the memory order asked for
};
const char* prepare(const Preparation& preparation, void* stream);

}  // namespace trainer::data::kernels

// CUDA kernels of the input pipeline, as plain functions: no torch and no CUDA header here, so that
// the same declarations serve nvcc and the C++ compiler. Only where TRAINER_KERNELS is defined.
// Pointers are to device memory; all run on `stream` (a cudaStream_t) and do not wait. They return
// a message of the CUDA runtime, or nullptr.
#pragma once

#include <cstdint>

#include "data/prepare.h"

namespace trainer::data::kernels {

// One picture on its way from decoded pixels to a row of the batch. Rectangles are as in
// Resampling.
struct Picture {
  const std::uint8_t* pixels;  // RGB, as stored, rows without padding
  int height, width;
  int orientation;  // EXIF's
  // The part of the upright picture that is needed: its pixels with the wanted channels, and the
  // bytes from row to row. Where `turned` is set it is made first; else it lies in `pixels`.
  int region_top, region_left, region_height, region_width;
  std::uint8_t* region;
  int region_stride;
  int turned;
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
  int turned_pixels = 0;  // of a region; 0 where none is turned
  int between_pixels = 0;
  int taps = 0;  // rows or columns of a window
  bool jitter = false;
};
const char* build(const Picture* pictures, int count, const Largest& largest, int height, int width,
                  int channels, void* stream);

// What `prepare` of prepare.h does, on the GPU.
const char* prepare(const Prepare& task, void* stream);

}  // namespace trainer::data::kernels

// NVIDIA's JPEG decoder, loaded when it is wanted: its hardware unit where the GPU has one, else
// its CUDA kernels.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "data/dataset.h"
#include "data/gpu/jpeg_layout.h"

namespace trainer::data {

// A file to decode, and device memory for its RGB pixels, rows without padding.
struct JpegTask {
  Bytes bytes;
  JpegLayout layout;
  std::uint8_t* pixels = nullptr;
};

// For one thread; what a call decodes must be done before the next call. All of one device share
// what is costly to start.
class NvJpeg {
 public:
  // For the current CUDA device. nullptr, with the reason in `reason`, where there is no libnvjpeg
  // or it does not start.
  static std::unique_ptr<NvJpeg> create(std::string& reason);
  ~NvJpeg();
  NvJpeg(const NvJpeg&) = delete;

  // Decodes all tasks on `stream` (a cudaStream_t); may return before the GPU is done. False where
  // the library refuses one of them; then none is sure to be decoded.
  bool decode(std::span<const JpegTask> tasks, void* stream);

 private:
  struct Impl;
  explicit NvJpeg(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

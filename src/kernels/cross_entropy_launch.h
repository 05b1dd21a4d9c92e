// The CUDA kernel of cross_entropy.h, as a plain function: no torch and no CUDA header here, so
// that the same declarations serve nvcc and the C++ compiler. Only where TRAINER_KERNELS is
// defined.
#pragma once

#include <cstdint>

namespace trainer::kernels {

enum class LogitsType { float32, bfloat16, float16 };

// Pointers are to device memory.
struct CrossEntropyLaunch {
  void* logits;
  LogitsType type;
  std::int64_t stride;  // values from row to row
  std::int64_t rows;
  int columns;
  const std::int64_t* targets;
  std::int64_t ignored;  // the target that counts nowhere
  const float* factors;  // or nullptr
  float label_smoothing, z_loss;
  float* losses;
  float* hits;  // or nullptr
  bool gradient;
};

// Runs on `stream` (a cudaStream_t) and does not wait. Returns a message of the CUDA runtime, or
// nullptr.
const char* launch(const CrossEntropyLaunch& task, void* stream);

}  // namespace trainer::kernels

// Softmax cross-entropy of rows of logits, whose gradient takes the place of the logits: neither
// the probabilities nor a second matrix of that size ever exist.
#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::kernels {

// With x a row of V logits, t its target, lse = log(sum(exp(x))), eps the label smoothing and z the
// coefficient of the z-loss (Chowdhery et al. 2022, "PaLM", section 5):
//   loss = (1 - eps) * (lse - x[t]) + eps * (lse - mean(x)) + z * lse^2
// and its gradient by x[j], with p = exp(x - lse):
//   p[j] * (1 + 2 * z * lse) - eps / V - (1 - eps) * [j == t]
struct CrossEntropy {
  at::Tensor logits;   // [rows, V], the values of a row side by side, rows at any distance
  at::Tensor targets;  // int64 [rows], contiguous: 0 to V - 1, or kIgnored
  at::Tensor factors;  // float32 [rows], contiguous: of each row's gradient; undefined: 1
  double label_smoothing = 0;
  double z_loss = 0;
  // Written. Contiguous float32 [rows]; without the factors; 0 where the target is ignored.
  at::Tensor losses;
  // Written where defined. Contiguous float32 [rows]: 1 where the target is the first of the
  // largest logits, else 0, also in a row that has a NaN.
  at::Tensor hits;
  // Overwrites the logits with factor * gradient; all of an ignored row with 0. Else they are only
  // read.
  bool gradient = false;
};

// Computes in float32 (float64 for float64 logits, which CUDA does not take) and rounds to the
// logits' dtype once, at the end. On CUDA it is one kernel that reads the logits from memory once,
// reads them again mostly from the cache, and writes them; where the kernels are not built, and on
// the CPU, it is a few operators. It never waits for the device.
// A target outside of the vocabulary throws Error(data) on the CPU; on CUDA, which could not say so
// without waiting, loss and gradient of its row are NaN.
void cross_entropy(const CrossEntropy& task);

}  // namespace trainer::kernels

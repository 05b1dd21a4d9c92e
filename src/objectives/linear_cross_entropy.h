// The head of a language model together with its loss. Logits of all tokens at once are by far its
// largest tensor (32 x 1024 tokens of GPT-2's vocabulary: 3.3 GB in bfloat16, twice that in
// float32). Here they exist for a chunk of tokens at a time, in one buffer.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainer::objectives {

struct LinearCrossEntropy {
  double label_smoothing = 0;
  double z_loss = 0;  // as kernels::CrossEntropy defines both
  // Tokens whose logits exist at once. 0: as many as fit into 256 MiB on CUDA and 16 MiB on the
  // CPU, and at least 128. Results do not depend on it but for rounding.
  std::int64_t chunk = 0;
};

// Sum over tokens of weight * loss, 0-dim float32, differentiable by hidden and head.
//   hidden   [n, length, width] or [rows, width]
//   head     [V, width], logits are hidden * head^T
//   targets  int64, a value for each row of hidden: 0 to V - 1, or kIgnored; others as
//            kernels::cross_entropy says
//   weights  float32, a value for each row of hidden, or undefined: 1
// Products are in the autocast dtype where autocast is on, else in the common type of hidden and
// head. The losses, the sum over chunks of the head's gradient and the scaling of both gradients by
// that of the sum are in float32 (float64 for float64).
//
// Note [Gradients in the forward pass]: logits are made once only, so the gradients by hidden and
// head, of the sum itself, are made beside them and kept; the backward pass multiplies them by the
// gradient of the sum. That is done in place: one backward pass, and no second derivative. The
// gradient of a token's loss is at most 1 in size, so it can be float16 in the chunk: what would
// make it vanish there, the division by the number of tokens, comes after the sum.
//
// Where no gradient is wanted (no-grad mode, or neither requires one) only the losses are computed;
// the head's gradient, or hidden's, is left out where it alone is not. The host never waits.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, const at::Tensor& weights,
                                const LinearCrossEntropy& options = {});

// Both float32 [rows], not differentiable: the losses (0 where ignored), and 1 where the target is
// the first of the largest logits.
struct TokenResults {
  at::Tensor losses, hits;
};
TokenResults token_results(const at::Tensor& hidden, const at::Tensor& head,
                           const at::Tensor& targets, const LinearCrossEntropy& options = {});

}  // namespace trainer::objectives

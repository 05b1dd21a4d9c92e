// Text one token after another: what a language model gives with the keys and values of the tokens
// before kept, so that each token is computed once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trainer::models {

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Takes tokens int64 [rows, t >= 1], on the model's device, which follow those of the calls
  // before, and gives the logits [rows, vocabulary] of what follows the last of them, without
  // gradients or dropout. Throws Error(config) where they are more than fit.
  virtual at::Tensor step(const at::Tensor& tokens) = 0;
  virtual std::int64_t length() const = 0;  // tokens taken so far
  virtual std::int64_t capacity() const = 0;
  // Forgets every token; the memory is kept.
  virtual void clear() = 0;
};

}  // namespace trainer::models

// Rotary position embeddings (Su et al. 2021) and their stretchings to longer sequences, with the
// numbers of Hugging Face's transformers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "config/experiment.h"

namespace trainer::models {

struct RotaryFrequencies {
  at::Tensor values;  // float32 [head / 2] on the CPU, radians a position
  double scale = 1;   // of cosines and sines (YaRN's attention factor)
};

// Those for a sequence of `length` tokens, on which they depend only with dynamic scaling:
//   linear   Chen et al. 2023: all divided by the factor;
//   dynamic  the base grows with sequences longer than original_context;
//   llama3   Llama 3.1: low frequencies divided, high ones kept, a ramp between;
//   yarn     Peng et al. 2023.
RotaryFrequencies rotary_frequencies(const config::Llama& config, std::int64_t length);

// What a forward pass turns queries and keys by, for each of its tokens.
struct Rotation {
  at::Tensor cosine, sine;  // float32 [t, 1, head / 2], or [n, t, 1, head / 2]

  // Turns the pairs (x[i], x[i + head / 2]) of x [n, t, heads, head]: in float32, then in x's
  // dtype.
  at::Tensor operator()(const at::Tensor& x) const;
};

// Makes rotations, and keeps the tables that they are views of.
class Rotary {
 public:
  explicit Rotary(const config::Llama& config) : config_(config) {}

  // Of `tokens` tokens at positions first, first + 1, ...
  Rotation at(std::int64_t first, std::int64_t tokens, at::Device device);
  // Of tokens at `positions`, int64 [n, t], all of which are under `length`.
  Rotation at(const at::Tensor& positions, std::int64_t length);

 private:
  struct Table {
    std::int64_t stretched_for;  // the only length that it serves; 0: any that it has rows for
    at::Tensor cosine, sine;     // [rows, 1, head / 2]
  };
  const Table& table(std::int64_t length, at::Device device);
  Table make_table(std::int64_t stretched_for, std::int64_t rows, at::Device device) const;

  config::Llama config_;
  // A longer table does not replace a shorter one: a captured CUDA graph may still read it.
  std::vector<Table> tables_;
};

}  // namespace trainer::models

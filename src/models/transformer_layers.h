// The layers that transformers are made of beside those of layers.h. Handles, as there.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "models/layers.h"

namespace trainer::models {

// Ba et al. 2016, over the last dimension.
struct LayerNorm {
  at::Tensor weight, bias;  // [width]
  double eps = 1e-5;

  at::Tensor operator()(const at::Tensor& input) const;
};

// Zhang & Sennrich 2019: x / sqrt(mean(x^2) + eps) * weight over the last dimension.
struct RmsNorm {
  at::Tensor weight;  // [width]
  double eps = 1e-5;

  at::Tensor operator()(const at::Tensor& input) const;
};

// int64 [...] -> [..., width].
struct Embedding {
  at::Tensor weight;  // [rows, width]

  at::Tensor operator()(const at::Tensor& indices) const;
};

// [..., in] -> [..., out] with the weight the other way round, as GPT-2's files have it.
struct TransposedLinear {
  at::Tensor weight;  // [in, out]
  at::Tensor bias;    // [out]
  std::shared_ptr<Adapter> adapter;

  at::Tensor operator()(const at::Tensor& input) const;
};

// Keys and values of the tokens that a decoder has taken, for every block. They are allocated for
// `capacity` tokens at a block's first `append`, in the dtype and on the device of its keys.
class KeyValueCache {
 public:
  KeyValueCache(std::int64_t layers, std::int64_t capacity)
      : layers_(static_cast<std::size_t>(layers)), capacity_(capacity) {}

  std::int64_t length() const noexcept { return length_; }
  std::int64_t capacity() const noexcept { return capacity_; }
  // keys and values [n, heads, t, head] of the tokens after `length` -> those of all tokens so far
  // [n, heads, length + t, head], views of the cache.
  std::pair<at::Tensor, at::Tensor> append(std::int64_t layer, const at::Tensor& keys,
                                           const at::Tensor& values);
  // All blocks have appended `tokens`.
  void advance(std::int64_t tokens) noexcept { length_ += tokens; }
  void clear() noexcept { length_ = 0; }

 private:
  struct Layer {
    at::Tensor keys, values;
  };
  std::vector<Layer> layers_;
  std::int64_t capacity_;
  std::int64_t length_ = 0;
};

// How the tokens of one forward pass see each other.
struct Attention {
  bool causal = false;  // each sees itself and those before; needs as many keys as queries
  at::Tensor mask;      // added to the scores, broadcast to [n, heads, queries, keys]; with
                        // one, `causal` must be false
  double dropout = 0;   // of the probabilities
  KeyValueCache* cache = nullptr;

  // softmax(q k^T / sqrt(head) + mask) v. queries [n, heads, t, head]; keys and values
  // [n, kv_heads, s, head], where kv_heads divides heads and each serves heads / kv_heads
  // neighbouring queries (Ainslie et al. 2023). -> [n, t, heads * head].
  at::Tensor operator()(const at::Tensor& queries, const at::Tensor& keys,
                        const at::Tensor& values) const;
};

// The mask of tokens that see those before them in their own document. documents int64 [n, t] ->
// [n, 1, t, t] of 0 and -infinity in `dtype`.
at::Tensor document_mask(const at::Tensor& documents, at::ScalarType dtype);

// The mask of `queries` tokens that follow `past` others: [queries, past + queries], as above.
at::Tensor continuation_mask(std::int64_t past, std::int64_t queries,
                             const at::TensorOptions& options);

// `input` in the dtype that autocast gives to matrix products where it is on for its device: a cast
// of its own before several products of one input, which else cast it once each.
at::Tensor autocast_input(const at::Tensor& input);
// float32, or that of autocast where it is on for `device`.
at::ScalarType compute_dtype(at::Device device);

}  // namespace trainer::models

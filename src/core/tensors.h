// The tensor types that cross rooms. Includes torch; a room without torch does not include it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainer {

struct NamedTensor {
  std::string name;
  at::Tensor value;
};
using NamedTensors = std::vector<NamedTensor>;

// A target that counts nowhere: a masked token, padding.
constexpr std::int64_t kIgnored = -100;

// One rank's share of a step's (or an evaluation's) samples, or a slice of it, on the device.
// All tensors have the same first dimension n and are views of buffers that the feed owns: they
// stay valid until the feed's next batch. What a kind of sample does not have is undefined.
struct Batch {
  // What the model's forward takes: float32 [n, channels, height, width], or int64 tokens
  // [n, length].
  at::Tensor input;
  // int64 [n] class indices, float32 [n, classes] soft targets, or int64 [n, length]: the token
  // that follows each, or kIgnored.
  at::Tensor target;
  at::Tensor weight;                // float32 [n], 0 for a sample that must not count
  std::int64_t first_position = 0;  // position in the epoch of the first sample
  // Where rows hold several documents that must not see each other, both int64 [n, length]: the
  // number of each token's document within its row (rising from 0; padding has a number of its
  // own), and the token's place in its document. Undefined where a row is one document.
  at::Tensor documents;
  at::Tensor positions;
};

// What a model gives back: logits, or for a language model in training what they are made of, so
// that an objective can make them piece by piece.
struct Output {
  at::Tensor logits;  // [n, classes], in the autocast dtype; undefined where `hidden` is not
  at::Tensor hidden;  // [n, length, width], after the last norm
  at::Tensor head;    // [vocabulary, width]: logits are hidden * head^T
};

// A part of a model that gives the same output for the same input and state of the generator, so
// that it may be run again in the backward pass instead of keeping what it saved.
using Block = std::function<at::Tensor(const at::Tensor& input)>;
// Runs block `index` (from 0) of the model.
using RunBlock =
    std::function<at::Tensor(std::int64_t index, const Block& block, const at::Tensor& input)>;

// What a part needs to continue exactly: tensors by name (live, not copies: the checkpoint store
// copies them before training goes on) and plain values.
struct State {
  NamedTensors tensors;
  nlohmann::json values = nlohmann::json::object();
};

// A part of a run that a checkpoint holds. `load` gets what an equal part's `state` gave, its
// tensors on the CPU, and throws Error(storage) naming what differs where it does not fit.
class Stateful {
 public:
  virtual ~Stateful() = default;
  virtual State state() const = 0;
  virtual void load(const State& state) = 0;
};

}  // namespace trainer

// The tensor types that cross rooms. Includes torch; a room without torch does not include it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace trainer {

struct NamedTensor {
  std::string name;
  at::Tensor value;
};
using NamedTensors = std::vector<NamedTensor>;

// One rank's share of a step's (or an evaluation's) samples, or a slice of it, on the device.
// All tensors have the same first dimension n and are views of buffers that the feed owns: they
// stay valid until the feed's next batch.
struct Batch {
  at::Tensor input;   // what the model's forward takes, e.g. float32 [n, channels, height, width]
  at::Tensor target;  // int64 [n] class indices, or float32 [n, classes] soft targets
  at::Tensor weight;  // float32 [n], 0 for a sample that must not count
  std::int64_t first_position = 0;  // position in the epoch of the first sample
};

// What a model gives back.
struct Output {
  at::Tensor logits;  // [n, classes], in the autocast dtype
};

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

// What the code of a model may ask of whoever runs its blocks, so that a block can be run again in
// the backward pass instead of keeping what it saved. Includes torch, as core/tensors.h does.
#pragma once

#include <functional>

#include "core/tensors.h"

namespace trainer::recompute {

using Compute = std::function<at::Tensor()>;

// One run of a block, on the thread that runs it.
class Run {
 public:
  Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;
  virtual ~Run() = default;
  // True in the backward pass, where the block has run before on the same input.
  virtual bool again() const = 0;
  // See recompute::keep.
  virtual at::Tensor keep(at::TensorList inputs, const Compute& compute) = 0;
};

// Set by room `memory` while a block runs under a policy that is not `none`.
inline thread_local Run* current = nullptr;

// True where this code runs a second time for the same input. What a block changes besides making
// its output (the running statistics of a batch norm) must not be changed then.
inline bool running_again() { return current != nullptr && current->again(); }

// compute(), marked as worth keeping: the policy `selective` keeps its output and what it saves for
// its own backward pass, and does not call it again in the backward pass. Meant for attention.
//
// `compute` must read tensors that are made in the same block through `inputs` alone (queries, keys
// and values: the others it captures are kept for as long as the graph lives). Make `inputs` in the
// type that it works in: a tensor that autocast casts inside is kept besides. Its output must not
// be changed in place, nor be an input.
inline at::Tensor keep(at::TensorList inputs, const Compute& compute) {
  return current == nullptr ? compute() : current->keep(inputs, compute);
}

}  // namespace trainer::recompute

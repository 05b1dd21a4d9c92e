// How saved tensors are caught: hooks that torch's autograd asks for whenever an operation saves a
// tensor for its backward pass. Internal to the room.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <memory>

#include "core/recompute.h"
#include "memory/activation_checkpointing.h"

namespace trainer::memory {

struct ActivationCheckpointing::Counters {
  std::atomic<std::int64_t> recomputed_blocks{0}, offloaded_bytes{0}, restored_bytes{0},
      host_bytes{0};
};

// A run of a block that decides what becomes of each tensor that is saved in it.
class HookedRun : public recompute::Run {
 public:
  // For the next tensor that is saved. The hooks' call_pack_hook is called at once, with the tensor
  // itself: hooks that hold one that is no leaf hold its detach(), or they keep themselves alive.
  // They are destroyed when the operation's backward pass is over or its graph is dropped.
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;
};

// While it lives, tensors saved on this thread are handed to `run`.
class Hooked {
 public:
  explicit Hooked(HookedRun& run);
  ~Hooked();
  Hooked(const Hooked&) = delete;
  Hooked& operator=(const Hooked&) = delete;

 private:
  HookedRun* before_;
};

// Makes torch's autograd ask for hooks. Once a process; further calls do nothing.
void install_hooks();

// A tensor that is there whatever the policy is: a parameter, or what else gradients end at.
inline bool is_parameter(const at::Tensor& tensor) {
  return tensor.requires_grad() && tensor.is_leaf();
}

// Base of hooks: what only Python's compiled autograd asks for.
class Hook : public torch::autograd::SavedVariableHooks {
 public:
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override {
    return std::nullopt;
  }
};

}  // namespace trainer::memory

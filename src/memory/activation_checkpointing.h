// Activation checkpointing: less memory for what the blocks of a model save for the backward pass,
// for more computation or more traffic. The gradients stay the same to the bit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::memory {

// Since the object was made.
struct CheckpointingCounts {
  std::int64_t recomputed_blocks = 0;
  std::int64_t offloaded_bytes = 0;  // to the host
  std::int64_t restored_bytes = 0;   // and back: less, as the last blocks are still there
  std::int64_t host_bytes = 0;       // allocated for offloading; constant once steps repeat
};

// Runs the blocks of a model by a policy. Give `runner` to Model::set_block_runner.
//
// The policies, of config::ActivationCheckpointing:
//   KeepActivations     a block is only called.
//   RecomputeBlocks     nothing that a block saves stays; what the backward pass needs is made by
//                       running the block again on its input, as far as the last tensor that is
//                       still wanted. With `every: k` blocks 0..k-1, k..2k-1 and so on are groups
//                       of which the first block's input stays; all blocks of a group are run again
//                       together. A block whose input is not the very output of the block before
//                       it starts a group of its own.
//   RecomputeSelective  likewise for each block, except that what it runs through recompute::keep
//                       (core/recompute.h) keeps its output and is not run again.
//   OffloadActivations  saved tensors of at least min_size bytes are copied to page-locked memory
//                       by a stream of their own, and back while the block after them is in its
//                       backward pass. Those of the last two blocks stay on the device as well.
//                       Tensors that are there anyway (parameters, their casts, constants that
//                       several blocks share) stay. On the CPU it only copies to and fro.
//
// A block is copied and called again after the forward pass has ended: it holds by value what it
// captures (tensors are handles), and outlives no module. It gives the same output for the same
// input, generator, autocast state and parameters, changes its input in no way, and changes nothing
// else where recompute::running_again(). One that saves other tensors than before makes backward
// throw Error(internal); what it throws itself comes out of backward.
//
// Several forward passes may wait for their backward passes at a time (micro-batches). A graph is
// walked backward once. A forward or backward pass that is abandoned leaves nothing behind. One
// forward pass runs at a time; backward may run on other threads. In no-grad mode blocks are only
// called.
//
// A policy other than KeepActivations replaces the process's autograd engine by one that differs in
// handing saved tensors here: make the object before any thread is in a backward pass.
class ActivationCheckpointing {
 public:
  // `resident`: parameters and buffers of the model, where they are to stay; they are not offloaded
  // (a frozen weight cannot be told from an activation otherwise). Their storages are kept alive.
  explicit ActivationCheckpointing(const config::ActivationCheckpointing& policy,
                                   const std::vector<at::Tensor>& resident = {});

  // May outlive this object.
  RunBlock runner() const { return runner_; }
  CheckpointingCounts counts() const;

  struct Counters;

 private:
  std::shared_ptr<Counters> counters_;
  RunBlock runner_;
};

}  // namespace trainer::memory

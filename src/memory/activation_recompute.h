// Policies that run blocks again in the backward pass. Internal to the room.
#pragma once

#include <memory>

#include "core/tensors.h"
#include "memory/activation_hooks.h"

namespace trainer::memory {

// Groups of `every` blocks; with `selective`, what goes through recompute::keep is kept.
RunBlock recompute_blocks(std::int64_t every, bool selective,
                          std::shared_ptr<ActivationCheckpointing::Counters> counters);

}  // namespace trainer::memory

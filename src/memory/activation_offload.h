// The policy that moves saved tensors to the host. Internal to the room.
#pragma once

#include <memory>
#include <vector>

#include "core/tensors.h"
#include "memory/activation_hooks.h"

namespace trainer::memory {

// Tensors of at least `min_size` bytes that do not lie in a storage of `resident`.
RunBlock offload_blocks(std::int64_t min_size, std::vector<c10::Storage> resident,
                        std::shared_ptr<ActivationCheckpointing::Counters> counters);

}  // namespace trainer::memory

// How much of the machine's memory this process may use.
#pragma once

#include <cstdint>

namespace trainer {

// Bytes: the smaller of what the kernel could give without swapping (MemAvailable) and the
// tightest cgroup limit (v1 and v2) on the way from this process's cgroup to the root.
std::int64_t ram_limit();

}  // namespace trainer

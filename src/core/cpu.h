// How much of the machine this process may use.
#pragma once

namespace trainer {

// CPUs this process may run on: the smallest of the affinity mask and the cgroup's quota (v1 and
// v2), rounded up, at least 1. The host's count is no guide inside a container.
int cpu_limit();

}  // namespace trainer

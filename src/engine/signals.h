// SIGINT and SIGTERM: the first asks the run to save and stop, the second ends it at once.
#pragma once

#include <atomic>

namespace trainer::engine {

// Number of the signal that asked the run to stop; 0 while none has.
std::atomic<int>& stop_signal();

// Installs the handlers for SIGINT, SIGTERM and SIGUSR1 (what SLURM sends ahead of a time limit
// with --signal; treated as SIGTERM).
void install_signal_handlers();

}  // namespace trainer::engine

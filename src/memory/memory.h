// Device memory: allocator settings and statistics, and page-locked host buffers. The header needs
// no torch, so that rooms without torch may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "config/experiment.h"

namespace trainer::memory {

// Before the first CUDA allocation. Leaves PYTORCH_ALLOC_CONF / PYTORCH_CUDA_ALLOC_CONF alone where
// the user set them.
void configure(const config::Memory& config);

// Bytes of the caching allocator on CUDA device `index`.
struct Statistics {
  std::int64_t allocated = 0;
  std::int64_t peak = 0;  // of allocated, since the last reset_peak
  std::int64_t reserved = 0;
};
Statistics statistics(int index);
void reset_peak(int index);

// Page-locked memory that a CUDA copy can read while the host goes on; plain memory (64-byte
// aligned) where `pinned` is false. Throws Error(out_of_memory).
struct HostBuffer {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
};
HostBuffer allocate_host(std::size_t bytes, bool pinned);

}  // namespace trainer::memory

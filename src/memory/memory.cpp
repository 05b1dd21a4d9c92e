#include "memory/memory.h"

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "core/text.h"

// Note [Through interfaces]: the allocators are reached through c10's device-independent
// interfaces, so that no CUDA header or library is needed here and one binary serves machines
// without a GPU.

namespace trainer::memory {
namespace {

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

c10::DeviceAllocator& cuda_allocator() { return *c10::getDeviceAllocator(c10::DeviceType::CUDA); }

// The allocator makes itself at the first allocation on any CUDA device; until then it has no
// statistics to ask for.
bool in_use() { return at::hasCUDA() && cuda_allocator().initialized(); }

HostBuffer allocate_plain(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  void* data = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  if (data == nullptr) {
    throw Error(Exit::out_of_memory,
                "cannot allocate " + human_bytes(static_cast<double>(bytes)) +
                    " of host memory; make data.loader.prefetch or the batch smaller");
  }
  return {static_cast<std::byte*>(data), std::shared_ptr<void>(data, std::free)};
}

HostBuffer allocate_pinned(std::size_t bytes) {
  try {
    auto block = std::make_shared<at::DataPtr>(at::getHostAllocator(at::kCUDA)->allocate(bytes));
    auto* data = static_cast<std::byte*>(block->get());
    return {data, std::move(block)};
  } catch (const c10::Error& failure) {
    throw Error(Exit::out_of_memory,
                "cannot allocate " + human_bytes(static_cast<double>(bytes)) +
                    " of page-locked host memory (" + failure.what_without_backtrace() +
                    "); make data.loader.prefetch or the batch smaller, or raise ulimit -l");
  }
}

}  // namespace

void configure(const config::Memory& config) {
  if (is_set("PYTORCH_ALLOC_CONF") || is_set("PYTORCH_CUDA_ALLOC_CONF")) return;
  const bool expandable = config.allocator == config::Allocator::expandable;
  c10::CachingAllocator::setAllocatorSettings(expandable ? "expandable_segments:True"
                                                         : "expandable_segments:False");
}

Statistics statistics(int index) {
  if (!in_use()) return {};
  const auto device = static_cast<c10::DeviceIndex>(index);
  const auto all = cuda_allocator().getDeviceStats(device);
  constexpr std::size_t kAll = 0;  // of large and small blocks together
  return {all.allocated_bytes[kAll].current, all.allocated_bytes[kAll].peak,
          all.reserved_bytes[kAll].current};
}

void reset_peak(int index) {
  if (in_use()) cuda_allocator().resetPeakStats(static_cast<c10::DeviceIndex>(index));
}

HostBuffer allocate_host(std::size_t bytes, bool pinned) {
  if (bytes == 0) bytes = 1;
  return pinned ? allocate_pinned(bytes) : allocate_plain(bytes);
}

}  // namespace trainer::memory

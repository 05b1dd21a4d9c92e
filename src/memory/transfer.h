// Copies between a device and host memory that run beside the device's computation. Internal to the
// room.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "memory/activation_hooks.h"

namespace trainer::memory {

// Bytes of a storage, as a tensor of type uint8 that shares it.
at::Tensor bytes_of(const c10::Storage& storage, at::Device device);

// Host buffers by size, kept for the next step. A buffer may be given back while a copy of
// `Transfer` to or from it is still to run: the next copy runs after it on the same stream.
class HostPool {
 public:
  explicit HostPool(std::shared_ptr<ActivationCheckpointing::Counters> counters)
      : counters_(std::move(counters)) {}
  // uint8 [bytes]; page-locked where asked. Throws Error(out_of_memory).
  at::Tensor take(std::int64_t bytes, bool pinned);
  void give_back(at::Tensor buffer, bool pinned);

 private:
  const std::shared_ptr<ActivationCheckpointing::Counters> counters_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, bool>, std::vector<at::Tensor>> free_;
};

// The stream that copies run on, of one device. On the CPU everything happens at once.
class Transfer {
 public:
  explicit Transfer(at::Device device);

  at::Device device() const { return device_; }
  // Queues a copy that begins when the work of the current stream so far is done.
  void copy(const at::Tensor& to, const at::Tensor& from);
  // The end of the copies that were queued so far; nothing on the CPU.
  std::optional<c10::Event> mark() const;
  // The current stream goes on when `mark` has been reached.
  void wait(const std::optional<c10::Event>& mark) const;
  // Before `storage` is let go while a copy to or from it may be under way.
  void keep_until_done(const c10::Storage& storage) const noexcept;

 private:
  c10::Stream current() const;

  at::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace trainer::memory

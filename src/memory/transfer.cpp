#include "memory/transfer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set.h>
#include <c10/core/GradMode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <utility>

#include "memory/memory.h"

// Streams and events are reached through c10's interfaces: see Note [Through interfaces] in
// memory.cpp.

namespace trainer::memory {

at::Tensor bytes_of(const c10::Storage& storage, at::Device device) {
  const c10::AutoGradMode no_grad(false);
  at::Tensor bytes = at::empty({0}, at::TensorOptions(device).dtype(at::kByte));
  const auto size = static_cast<std::int64_t>(storage.nbytes());
  return bytes.set_(storage, 0, {size}, {1});
}

at::Tensor HostPool::take(std::int64_t bytes, bool pinned) {
  {
    const std::lock_guard lock(mutex_);
    std::vector<at::Tensor>& ready = free_[{bytes, pinned}];
    if (!ready.empty()) {
      at::Tensor buffer = std::move(ready.back());
      ready.pop_back();
      return buffer;
    }
  }
  const HostBuffer buffer = allocate_host(static_cast<std::size_t>(bytes), pinned);
  counters_->host_bytes += bytes;
  return at::from_blob(
      buffer.data, {bytes}, [owner = buffer.owner](void*) {}, at::TensorOptions(at::kByte));
}

void HostPool::give_back(at::Tensor buffer, bool pinned) {
  const std::int64_t bytes = buffer.numel();
  const std::lock_guard lock(mutex_);
  free_[{bytes, pinned}].push_back(std::move(buffer));
}

Transfer::Transfer(at::Device device) : device_(device) {
  if (device.is_cpu()) return;
  stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

c10::Stream Transfer::current() const {
  return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
}

void Transfer::copy(const at::Tensor& to, const at::Tensor& from) {
  const c10::AutoGradMode no_grad(false);
  if (!stream_) {
    to.copy_(from);
    return;
  }
  c10::Event ready(device_.type());
  ready.record(current());
  ready.block(*stream_);
  const c10::StreamGuard on_stream(*stream_);
  to.copy_(from, /*non_blocking=*/true);
}

std::optional<c10::Event> Transfer::mark() const {
  if (!stream_) return std::nullopt;
  c10::Event event(device_.type());
  event.record(*stream_);
  return event;
}

void Transfer::wait(const std::optional<c10::Event>& mark) const {
  if (mark) mark->block(current());
}

void Transfer::keep_until_done(const c10::Storage& storage) const noexcept {
  if (!stream_) return;
  try {
    c10::impl::VirtualGuardImpl(device_.type()).recordDataPtrOnStream(storage.data_ptr(), *stream_);
  } catch (const c10::Error&) {
    // The device has failed; whoever uses it next hears of it.
  }
}

}  // namespace trainer::memory

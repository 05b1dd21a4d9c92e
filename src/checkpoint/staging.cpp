#include "checkpoint/staging.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "core/log.h"

namespace trainer::checkpoint {

void Staging::begin() {
  for (auto& [key, buffer] : buffers_) buffer.used = false;
  devices_.clear();
}

at::Tensor Staging::allocate(const at::Tensor& source, bool& pinned) {
  const at::TensorOptions options = at::TensorOptions().dtype(source.scalar_type());
  if (pinned) {
    try {
      return at::empty(source.sizes(), options.pinned_memory(true));
    } catch (const c10::Error& failure) {
      can_pin_ = false;
      log::warning(std::string("no page-locked memory for checkpoints; saving will hold training "
                               "up for longer: ") +
                   failure.what_without_backtrace());
    }
  }
  pinned = false;
  return at::empty(source.sizes(), options);
}

at::Tensor& Staging::buffer(const std::string& key, const at::Tensor& source) {
  Buffer& buffer = buffers_[key];
  const bool pinned = can_pin_ && !source.device().is_cpu();
  if (!buffer.tensor.defined() || buffer.pinned != pinned ||
      buffer.tensor.scalar_type() != source.scalar_type() ||
      buffer.tensor.sizes() != source.sizes()) {
    buffer.pinned = pinned;
    buffer.tensor = at::Tensor();  // the old memory first
    buffer.tensor = allocate(source, buffer.pinned);
  }
  buffer.used = true;
  return buffer.tensor;
}

at::Tensor Staging::copy(const std::string& key, const at::Tensor& source) {
  const at::NoGradGuard no_grad;
  at::Tensor& target = buffer(key, source);
  const c10::Device device = source.device();
  target.copy_(source, /*non_blocking=*/!device.is_cpu());
  if (!device.is_cpu() && std::find(devices_.begin(), devices_.end(), device) == devices_.end())
    devices_.push_back(device);
  return target;
}

std::vector<c10::Event> Staging::end() {
  std::erase_if(buffers_, [](const auto& entry) { return !entry.second.used; });
  std::vector<c10::Event> events;
  for (const c10::Device& device : devices_) {
    const c10::impl::VirtualGuardImpl backend(device.type());
    events.emplace_back(device.type()).record(backend.getStream(device));
  }
  return events;
}

}  // namespace trainer::checkpoint

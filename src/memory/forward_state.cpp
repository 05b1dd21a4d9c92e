#include "memory/forward_state.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>

#include <mutex>

namespace trainer::memory {

// The generators are reached through c10's interfaces: see Note [Through interfaces] in memory.cpp.

GeneratorState::GeneratorState(at::Device device) : device_(device) {
  at::Generator cpu = at::globalContext().defaultGenerator(at::kCPU);
  {
    const std::lock_guard lock(cpu.mutex());
    cpu_ = cpu.get_state();
  }
  if (!device.is_cuda()) return;
  at::Generator cuda = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(cuda.mutex());
  counter_ = Counter{cuda.current_seed(), cuda.get_offset()};
}

void GeneratorState::restore() const {
  at::Generator cpu = at::globalContext().defaultGenerator(at::kCPU);
  {
    const std::lock_guard lock(cpu.mutex());
    cpu.set_state(cpu_);
  }
  if (!counter_) return;
  at::Generator cuda = at::globalContext().defaultGenerator(device_);
  const std::lock_guard lock(cuda.mutex());
  cuda.set_current_seed(counter_->seed);  // sets the offset to 0
  cuda.set_offset(counter_->offset);
}

AutocastState AutocastState::now() {
  return {at::autocast::is_autocast_cache_enabled(), at::autocast::is_autocast_enabled(at::kCPU),
          at::autocast::is_autocast_enabled(at::kCUDA), at::autocast::get_autocast_dtype(at::kCPU),
          at::autocast::get_autocast_dtype(at::kCUDA)};
}

void AutocastState::set() const {
  at::autocast::set_autocast_cache_enabled(cache);
  at::autocast::set_autocast_enabled(at::kCPU, cpu);
  at::autocast::set_autocast_enabled(at::kCUDA, cuda);
  at::autocast::set_autocast_dtype(at::kCPU, cpu_type);
  at::autocast::set_autocast_dtype(at::kCUDA, cuda_type);
}

InForwardState::InForwardState(const ForwardState& state, at::Device device)
    : before_(device), grad_before_(c10::GradMode::is_enabled()) {
  state.generators.restore();
  state.autocast.set();
  at::autocast::increment_nesting();
  c10::GradMode::set_enabled(true);
}

InForwardState::~InForwardState() {
  c10::GradMode::set_enabled(grad_before_);
  // The casts of parameters that were made here are not for later.
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  before_.autocast.set();
  before_.generators.restore();
}

}  // namespace trainer::memory

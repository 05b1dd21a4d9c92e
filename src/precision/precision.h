// The dtype policy of a run: autocast and the loss scaler.
#pragma once

#include <c10/core/Device.h>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::precision {

// Sets the process-wide flags (TF32, cuDNN benchmark, deterministic algorithms). Call before any
// CUDA work. On CPU fp16 throws Error(config): bf16 and fp32 train there.
void configure(const config::Precision& config, at::Device device, bool deterministic);

// Autocast on while it lives (nothing for fp32). The cast weights' cache is cleared at the end, so
// one Scope around each micro-batch's forward.
class Scope {
 public:
  Scope(const config::Precision& config, at::Device device);
  ~Scope();
  Scope(const Scope&) = delete;

 private:
  at::DeviceType type_;
  bool on_;
  bool was_enabled_ = false;
  at::ScalarType was_dtype_{};
};

// Loss scale and its growth, on the device; never read by the host inside a step. For fp32 and
// bf16 the scale is 1 and never changes.
class Scaler : public Stateful {
 public:
  Scaler(const config::Precision& config, at::Device device);
  // 0-dim float32.
  const at::Tensor& scale() const { return scale_; }
  bool scales() const { return on_; }
  // After a step: halves on overflow, doubles after growth_interval updates without one.
  void update(const at::Tensor& found_inf);
  State state() const override;
  void load(const State& state) override;

 private:
  bool on_;
  std::int64_t growth_interval_;
  at::Tensor scale_;
  at::Tensor growth_tracker_;  // int32
};

}  // namespace trainer::precision

// The dtype policy of a run: autocast and the loss scaler.
#pragma once

#include <c10/core/Device.h>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::precision {

// Sets the process-wide flags (TF32 of cuBLAS and cuDNN, cuDNN's benchmark, deterministic
// algorithms) and, for a deterministic run on CUDA, CUBLAS_WORKSPACE_CONFIG where it is unset. Call
// before any CUDA work and before other threads read the environment. Throws Error(config) for fp16
// on the CPU (bf16 and fp32 train there), and where the environment forbids a repeatable cuBLAS.
void configure(const config::Precision& config, at::Device device, bool deterministic);

// Autocast on in this thread while it lives (nothing for fp32). The cast weights' cache is cleared
// at the end, so one Scope around each micro-batch's forward.
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

// While it lives and is `on`, cuDNN takes its convolutions by rule instead of measuring them: for a
// shape that is seen rarely, as the short batch at an epoch's end, measuring takes seconds and
// saves nothing.
class Untuned {
 public:
  explicit Untuned(bool on);
  ~Untuned();
  Untuned(const Untuned&) = delete;
  Untuned& operator=(const Untuned&) = delete;

 private:
  bool before_;
};

// Loss scale and its growth, on the device; never read by the host inside a step. For fp32 and
// bf16 the scale is 1 and never changes.
class Scaler : public Stateful {
 public:
  Scaler(const config::Precision& config, at::Device device);
  // 0-dim float32.
  const at::Tensor& scale() const { return scale_; }
  bool scales() const { return on_; }
  // After a step: halves on overflow (found_inf, 0-dim float32, is 1), doubles after
  // growth_interval updates in a row without one. No host wait.
  void update(const at::Tensor& found_inf);
  // `scale` and `growth_tracker` for fp16, nothing otherwise. Without a scale of its own `load`
  // ignores what it gets: a run may go on from fp16 in bf16.
  State state() const override;
  void load(const State& state) override;

 private:
  bool on_;
  std::int64_t growth_interval_;
  at::Tensor scale_;
  at::Tensor growth_tracker_;  // 0-dim int32: updates since the last overflow or growth
};

}  // namespace trainer::precision

#include "precision/precision.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.h"

namespace trainer::precision {
namespace {

using config::PrecisionMode;

constexpr const char* kCublasWorkspace = "CUBLAS_WORKSPACE_CONFIG";

// cuBLAS repeats its results only with one of these workspace settings, which it reads when its
// first handle is made (CUDA toolkit documentation, "Results reproducibility").
void require_repeatable_cublas() {
  setenv(kCublasWorkspace, ":4096:8", /*overwrite=*/0);
  const std::string value = std::getenv(kCublasWorkspace);
  if (value != ":4096:8" && value != ":16:8")
    throw Error(Exit::config, std::string("deterministic: the environment sets ") +
                                  kCublasWorkspace + "=" + value +
                                  ", with which cuBLAS is not repeatable; unset it, or set it to "
                                  ":4096:8");
}

at::ScalarType autocast_dtype(PrecisionMode mode) {
  return mode == PrecisionMode::fp16 ? at::kHalf : at::kBFloat16;
}

}  // namespace

void configure(const config::Precision& config, at::Device device, bool deterministic) {
  if (device.is_cpu() && config.mode == PrecisionMode::fp16)
    throw Error(Exit::config,
                "precision.mode: fp16 trains on CUDA devices only; on the CPU use bf16 or fp32");
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
  // The two legacy setters keep torch's older and newer TF32 flags equal; reading the older ones
  // throws where only the newer were set. Unlike setFloat32MatmulPrecision they leave oneDNN alone.
  context.setAllowTF32CuBLAS(config.tf32);
  context.setAllowTF32CuDNN(config.tf32);
  if (deterministic && device.is_cuda()) require_repeatable_cublas();
  // cuDNN's attention is the fastest on Hopper where it takes the shapes; the others follow.
  if (!deterministic && device.is_cuda())
    context.setSDPPriorityOrder({static_cast<std::int64_t>(at::SDPBackend::cudnn_attention),
                                 static_cast<std::int64_t>(at::SDPBackend::flash_attention),
                                 static_cast<std::int64_t>(at::SDPBackend::efficient_attention),
                                 static_cast<std::int64_t>(at::SDPBackend::math)});
}

Scope::Scope(const config::Precision& config, at::Device device)
    : type_(device.type()), on_(config.mode != PrecisionMode::fp32) {
  if (!on_) return;
  was_enabled_ = at::autocast::is_autocast_enabled(type_);
  was_dtype_ = at::autocast::get_autocast_dtype(type_);
  at::autocast::increment_nesting();
  at::autocast::set_autocast_enabled(type_, true);
  at::autocast::set_autocast_dtype(type_, autocast_dtype(config.mode));
}

Scope::~Scope() {
  if (!on_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(type_, was_enabled_);
  at::autocast::set_autocast_dtype(type_, was_dtype_);
}

Untuned::Untuned(bool on) : before_(at::globalContext().benchmarkCuDNN()) {
  if (on) at::globalContext().setBenchmarkCuDNN(false);
}

Untuned::~Untuned() { at::globalContext().setBenchmarkCuDNN(before_); }

Scaler::Scaler(const config::Precision& config, at::Device device)
    : on_(config.mode == PrecisionMode::fp16),
      growth_interval_(config.growth_interval),
      scale_(at::full({}, on_ ? config.initial_scale : 1.0,
                      at::TensorOptions().dtype(at::kFloat).device(device))),
      growth_tracker_(at::zeros({}, at::TensorOptions().dtype(at::kInt).device(device))) {}

void Scaler::update(const at::Tensor& found_inf) {
  if (!on_) return;
  const c10::AutoGradMode no_grad(false);
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, /*scale_growth_factor=*/2.0,
                         /*scale_backoff_factor=*/0.5, growth_interval_);
}

State Scaler::state() const {
  State state;
  if (on_) state.tensors = {{"scale", scale_}, {"growth_tracker", growth_tracker_}};
  return state;
}

void Scaler::load(const State& state) {
  for (const NamedTensor& live : this->state().tensors) {
    const auto saved = std::find_if(state.tensors.begin(), state.tensors.end(),
                                    [&](const NamedTensor& t) { return t.name == live.name; });
    if (saved == state.tensors.end() || saved->value.dim() != 0)
      throw Error(Exit::storage, "loss scaler state: \"" + live.name +
                                     "\" is missing or not a single number; the checkpoint was not "
                                     "saved with precision.mode: fp16");
    live.value.copy_(saved->value);
  }
}

}  // namespace trainer::precision

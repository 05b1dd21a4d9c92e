// Numbers by formula, the same to the bit as tests/oracle/formula.py (which defines it), so that no
// golden file has to store weights or inputs.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/tensors.h"

namespace trainer::formula {

// In [-1, 1).
inline double uniform(std::int64_t index, std::int64_t salt) {
  auto x = static_cast<std::uint32_t>((static_cast<std::uint64_t>(index) + 1) * 0x9E3779B1ULL +
                                      static_cast<std::uint64_t>(salt) * 0x85EBCA77ULL);
  for (int round = 0; round < 2; ++round) x = (x ^ (x >> 16)) * 0x45D9F3BU;
  x ^= x >> 16;
  return static_cast<double>(x) / 2147483648.0 - 1.0;
}

// float32, contiguous, on the CPU: shift + scale * uniform(position, salt).
inline at::Tensor tensor(at::IntArrayRef shape, std::int64_t salt, double scale = 1.0,
                         double shift = 0.0) {
  const at::Tensor made = at::empty(shape, at::kFloat);
  float* values = made.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    values[i] = static_cast<float>(shift + scale * uniform(i, salt));
  }
  return made;
}

// The batch of inputs of a step.
inline at::Tensor model_input(at::IntArrayRef shape, std::int64_t step = 0) {
  return tensor(shape, 1000 + step);
}

// int64 [count] class indices of a step.
inline at::Tensor targets(std::int64_t count, std::int64_t classes, std::int64_t step = 0) {
  return at::arange(count, at::kLong).add(step).mul(7).add(3).remainder(classes);
}

// Sets every parameter and buffer in place. `state` is in state_dict order.
inline void fill_state(const State& state) {
  const at::NoGradGuard no_grad;
  std::int64_t salt = 0;
  for (const auto& [name, value] : state.tensors) {
    ++salt;
    const std::string_view key = name;
    if (key.ends_with("num_batches_tracked")) {
      value.fill_(3);
    } else if (value.dim() >= 2) {
      const double fan_in = static_cast<double>(value.numel() / value.size(0));
      value.copy_(tensor(value.sizes(), salt, std::sqrt(6.0 / fan_in)));
    } else if (key.ends_with("running_var")) {
      value.copy_(tensor(value.sizes(), salt, 0.5, 1.0));
    } else if (key.ends_with(".weight")) {
      value.copy_(tensor(value.sizes(), salt, 0.1, 1.0));
    } else {
      value.copy_(tensor(value.sizes(), salt, 0.1));
    }
  }
}

}  // namespace trainer::formula

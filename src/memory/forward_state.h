// What else than its input and parameters a block's output depends on: generators, autocast, the
// gradient mode. Internal to the room.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace trainer::memory {

// Where torch's default generators of the CPU and of `device` are. Reading a CUDA generator is
// reading two numbers on the host.
class GeneratorState {
 public:
  explicit GeneratorState(at::Device device);
  void restore() const;

 private:
  struct Counter {
    std::uint64_t seed, offset;
  };
  at::Device device_;
  at::Tensor cpu_;
  std::optional<Counter> counter_;  // of a CUDA device
};

struct AutocastState {
  bool cache;
  bool cpu, cuda;  // enabled
  at::ScalarType cpu_type, cuda_type;

  static AutocastState now();
  void set() const;
};

struct ForwardState {
  explicit ForwardState(at::Device device) : generators(device), autocast(AutocastState::now()) {}
  GeneratorState generators;
  AutocastState autocast;
};

// While it lives, this thread is in the state of a forward pass, with gradients on; after it, the
// generators and autocast are where they were.
class InForwardState {
 public:
  InForwardState(const ForwardState& state, at::Device device);
  ~InForwardState();
  InForwardState(const InForwardState&) = delete;
  InForwardState& operator=(const InForwardState&) = delete;

 private:
  ForwardState before_;
  bool grad_before_;
};

}  // namespace trainer::memory

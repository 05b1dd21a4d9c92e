// Which device a run trains on, and the sentence that says why.
#pragma once

#include <c10/core/Device.h>

#include <string>

#include "config/experiment.h"

namespace trainer::engine {

struct ChosenDevice {
  at::Device device = at::kCPU;
  // The first line of a run: "training on cuda:0, NVIDIA H200 (139.8 GiB)" or "training on the CPU
  // (2 threads): no NVIDIA driver is installed (libcuda.so.1 was not found)".
  std::string line;
};

// Throws Error(device) where the experiment asks for a GPU (device: cuda, or require_gpu: true) and
// none can be used; the message says why and what to do.
ChosenDevice choose_device(const config::Experiment& experiment);

// As the driver names it; empty for the CPU.
std::string gpu_name(at::Device device);

}  // namespace trainer::engine

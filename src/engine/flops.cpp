#include "engine/flops.h"

#include <array>
#include <string>

#include "engine/device.h"

namespace trainer::engine {
namespace {

// Dense tensor-core rates for bf16 and fp16 in TFLOP/s, from NVIDIA's data sheets; the first name
// that the GPU's contains counts. TF32 is half of it.
struct Gpu {
  const char* name;
  double tflops;
};
constexpr std::array<Gpu, 14> kGpus{{{"B200", 2250},
                                     {"GH200", 989.4},
                                     {"H200", 989.4},
                                     {"H100 PCIe", 756},
                                     {"H100 NVL", 835},
                                     {"H100", 989.4},
                                     {"H20", 148},
                                     {"A100", 312},
                                     {"A800", 312},
                                     {"L40S", 362},
                                     {"L40", 181},
                                     {"L4", 121},
                                     {"A10G", 70},
                                     {"A10", 125}}};

}  // namespace

double training_flops(const models::Model& model, const config::Model& config,
                      std::int64_t tokens) {
  const config::LanguageModel* language = config::language_model_of(config);
  if (language == nullptr) return 0;
  double weights = 0;
  for (const auto& [name, value] : model.parameters()) {
    const bool positions = name.ends_with("wpe.weight");
    const bool embedding = name.ends_with("wte.weight") || name.ends_with("embed_tokens.weight");
    // A tied embedding multiplies as the head.
    if (value.dim() == 2 && !positions && !(embedding && !language->tied))
      weights += static_cast<double>(value.numel());
  }
  const double length = static_cast<double>(tokens);
  const auto layers = static_cast<double>(language->layers);
  const auto width = static_cast<double>(language->width);
  return length * (6 * weights + 12 * layers * width * length);
}

double peak_flops(const config::Experiment& experiment, at::Device device) {
  constexpr double kTera = 1e12;
  if (experiment.log.peak_tflops) return *experiment.log.peak_tflops * kTera;
  if (!device.is_cuda()) return 0;
  using config::PrecisionMode;
  const bool half = experiment.precision.mode != PrecisionMode::fp32;
  if (!half && !experiment.precision.tf32) return 0;
  const std::string name = gpu_name(device);
  for (const Gpu& gpu : kGpus)
    if (name.find(gpu.name) != std::string::npos) return gpu.tflops * kTera * (half ? 1.0 : 0.5);
  return 0;
}

}  // namespace trainer::engine

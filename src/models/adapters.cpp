#include "models/adapters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/matmul.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/model.h"

namespace trainer::models {
namespace {

constexpr const char* kPrefix = "base_model.model.";

bool is_adapter(const std::string& name) {
  return name.ends_with(".lora_A.weight") || name.ends_with(".lora_B.weight");
}

at::Tensor merged(const AdaptedLayer& layer) {
  const at::Tensor product = at::matmul(layer.up, layer.down);
  return at::add(layer.weight, layer.transposed ? product.t() : product, layer.scale);
}

}  // namespace

NamedTensors peft_tensors(const Model& model) {
  NamedTensors tensors;
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    tensors.push_back({kPrefix + layer.name + ".lora_A.weight", layer.down});
    tensors.push_back({kPrefix + layer.name + ".lora_B.weight", layer.up});
  }
  return tensors;
}

nlohmann::json peft_config(const Model& model, const AdapterOptions& options,
                           const std::string& base) {
  nlohmann::json targets = nlohmann::json::array();
  bool transposed = false;
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    targets.push_back(layer.name);
    transposed = transposed || layer.transposed;
  }
  return {{"peft_type", "LORA"},
          {"task_type", model.is_language_model() ? nlohmann::json("CAUSAL_LM") : nullptr},
          {"base_model_name_or_path", base},
          {"r", options.rank},
          {"lora_alpha", options.alpha},
          {"lora_dropout", options.dropout},
          {"target_modules", targets},
          {"fan_in_fan_out", transposed},
          {"bias", "none"},
          {"inference_mode", true}};
}

NamedTensors merged_state(const Model& model) {
  const at::NoGradGuard no_grad;
  std::map<std::string, AdaptedLayer> layers;
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    layers.emplace(layer.name + ".weight", layer);
  }
  NamedTensors tensors;
  for (const auto& [name, value] : model.state().tensors) {
    if (is_adapter(name)) continue;
    const auto found = layers.find(name);
    tensors.push_back({name, found == layers.end() ? value : merged(found->second)});
  }
  return tensors;
}

}  // namespace trainer::models

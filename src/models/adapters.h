// Low-rank adapters (LoRA, Hu et al. 2021) in the format of the peft library.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/tensors.h"

namespace trainer::models {

class Model;

struct AdapterOptions {
  std::int64_t rank = 8;
  double alpha = 16;  // the product is scaled by alpha / rank
  double dropout = 0;
  std::vector<std::string> targets;  // globs of the names of linear layers: "*.q_proj"
};

// A linear layer and its adapter; handles, not copies.
struct AdaptedLayer {
  std::string name;   // "transformer.h.0.attn.c_attn"
  at::Tensor weight;  // [out, in], or [in, out] where transposed (GPT-2's)
  at::Tensor down;    // [rank, in], from U(-1/sqrt(in), 1/sqrt(in))
  at::Tensor up;      // [out, rank], from 0
  double scale = 1;
  bool transposed = false;
};

// The adapters of `model` under the names of peft's adapter_model.safetensors:
// base_model.model.<layer>.lora_A.weight and lora_B.weight.
NamedTensors peft_tensors(const Model& model);

// The content of adapter_config.json for `options` as `model` has them. `base` is where the base
// model lies.
nlohmann::json peft_config(const Model& model, const AdapterOptions& options,
                           const std::string& base);

// The parameters and buffers without adapters, each weight with its adapter's product added: copies
// where a weight has an adapter, else handles. The model itself stays as it is.
NamedTensors merged_state(const Model& model);

}  // namespace trainer::models

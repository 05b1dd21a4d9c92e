// Reads the golden files of tests/golden and the descriptions of models in them.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "config/experiment.h"

namespace trainer::golden {

// `path` is relative to tests/golden: "models/initial.json".
inline nlohmann::json read(const std::string& path) {
  std::ifstream file("golden/" + path);
  if (!file) throw std::runtime_error("cannot open tests/golden/" + path);
  return nlohmann::json::parse(file);
}

inline void read_sizes(const nlohmann::json& from, config::LanguageModel& model) {
  model.layers = from.value("layers", model.layers);
  model.heads = from.value("heads", model.heads);
  model.width = from.value("width", model.width);
  model.context = from.value("context", model.context);
  model.tied = from.value("tied", model.tied);
}

inline config::RopeScaling rope_scaling(const nlohmann::json& from) {
  using Kind = config::RopeScaling::Kind;
  config::RopeScaling scaling;
  const auto kind = from.at("kind").get<std::string>();
  if (kind == "linear") scaling.kind = Kind::linear;
  if (kind == "dynamic") scaling.kind = Kind::dynamic;
  if (kind == "llama3") scaling.kind = Kind::llama3;
  if (kind == "yarn") scaling.kind = Kind::yarn;
  scaling.factor = from.value("factor", scaling.factor);
  scaling.original_context = from.value("original_context", scaling.original_context);
  scaling.low_freq_factor = from.value("low_freq_factor", scaling.low_freq_factor);
  scaling.high_freq_factor = from.value("high_freq_factor", scaling.high_freq_factor);
  scaling.beta_fast = from.value("beta_fast", scaling.beta_fast);
  scaling.beta_slow = from.value("beta_slow", scaling.beta_slow);
  scaling.truncate = from.value("truncate", scaling.truncate);
  if (from.contains("attention_factor")) scaling.attention_factor = from.at("attention_factor");
  return scaling;
}

inline config::Gpt2 gpt2(const nlohmann::json& from) {
  config::Gpt2 model;
  read_sizes(from, model);
  if (from.contains("intermediate")) model.intermediate = from.at("intermediate");
  return model;
}

inline config::Llama llama(const nlohmann::json& from) {
  config::Llama model;
  read_sizes(from, model);
  if (from.contains("kv_heads")) model.kv_heads = from.at("kv_heads");
  if (from.contains("head_size")) model.head_size = from.at("head_size");
  model.intermediate = from.value("intermediate", model.intermediate);
  model.rope_theta = from.value("rope_theta", model.rope_theta);
  if (from.contains("rope_scaling")) model.rope_scaling = rope_scaling(from.at("rope_scaling"));
  model.norm_eps = from.value("norm_eps", model.norm_eps);
  model.qkv_bias = from.value("qkv_bias", model.qkv_bias);
  return model;
}

inline config::Vit vit(const nlohmann::json& from) {
  config::Vit model;
  model.image = from.value("image", model.image);
  model.patch = from.value("patch", model.patch);
  model.layers = from.value("layers", model.layers);
  model.heads = from.value("heads", model.heads);
  model.width = from.value("width", model.width);
  model.intermediate = from.value("intermediate", model.intermediate);
  return model;
}

// {"kind": "mlp", "hidden": [32, 16], "activation": "relu"}, {"kind": "lenet"},
// {"kind": "resnet18", "stem": "cifar"}, or gpt2, llama and vit with the fields of their structs by
// name; keys that are left out have the configuration's default.
inline config::Model model(const nlohmann::json& description) {
  const auto kind = description.at("kind").get<std::string>();
  if (kind == "lenet") return config::LeNet{};
  if (kind == "gpt2") return gpt2(description);
  if (kind == "llama") return llama(description);
  if (kind == "vit") return vit(description);
  if (kind == "mlp") {
    config::Mlp mlp;
    mlp.hidden = description.at("hidden").get<std::vector<std::int64_t>>();
    const auto activation = description.value("activation", "relu");
    if (activation == "gelu") mlp.activation = config::Activation::gelu;
    if (activation == "tanh") mlp.activation = config::Activation::tanh;
    return mlp;
  }
  config::ResNet resnet;
  resnet.depth = std::stoi(kind.substr(std::string("resnet").size()));
  if (description.value("stem", "imagenet") == "cifar") resnet.stem = config::Stem::cifar;
  return resnet;
}

}  // namespace trainer::golden

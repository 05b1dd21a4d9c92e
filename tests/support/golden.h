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

// {"kind": "mlp", "hidden": [32, 16], "activation": "relu"}, {"kind": "lenet"} or
// {"kind": "resnet18", "stem": "cifar"}; keys that are left out have the configuration's default.
inline config::Model model(const nlohmann::json& description) {
  const auto kind = description.at("kind").get<std::string>();
  if (kind == "lenet") return config::LeNet{};
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

#include "engine/model_set_up.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "checkpoint/store.h"
#include "core/error.h"
#include "core/text.h"
#include "models/hugging_face.h"

namespace trainer::engine {
namespace {

bool any_matches(const std::vector<std::string>& globs, const std::string& name) {
  return std::any_of(globs.begin(), globs.end(),
                     [&](const std::string& glob) { return glob_match(glob, name); });
}

void set_dropout(config::Model& model, double dropout) {
  std::visit(
      [dropout](auto& kind) {
        if constexpr (requires { kind.dropout; }) kind.dropout = dropout;
      },
      model);
}

// What peft takes by default, as far as it has one.
std::vector<std::string> usual_targets(const config::Model& model) {
  if (std::holds_alternative<config::Gpt2>(model)) return {"*.attn.c_attn"};
  if (std::holds_alternative<config::Llama>(model)) return {"*.q_proj", "*.v_proj"};
  if (std::holds_alternative<config::Vit>(model)) return {"*.qkv"};
  throw Error(Exit::config,
              "model.lora.targets: auto knows transformers only; name the linear layers, such as "
              "[\"fc\"]");
}

}  // namespace

config::Experiment with_known_model(config::Experiment experiment) {
  const auto* folder = std::get_if<config::HuggingFace>(&experiment.model);
  if (folder == nullptr) return experiment;
  const config::HuggingFace wanted = *folder;
  config::Model model = models::read_hugging_face(wanted.path, wanted.context);
  config::ModelCommon& common = config::common(model);
  config::Weights own;
  own.path = wanted.path;
  common.weights = wanted.weights.value_or(own);
  common.freeze = wanted.freeze;
  common.lora = wanted.lora;
  // A head that starts anew has as many classes as the data.
  if (any_matches(common.weights->skip, "head.weight")) common.classes.reset();
  if (wanted.dropout > 0) set_dropout(model, wanted.dropout);
  experiment.model = std::move(model);
  return experiment;
}

void require_suitable(const models::Model& model, const config::Experiment& experiment) {
  const config::TokenSource* text = config::text_of(experiment.data.train);
  if (model.is_language_model() != (text != nullptr)) {
    throw Error(Exit::config,
                model.is_language_model()
                    ? "the model reads text, and data.train gives images; use a source of text, "
                      "such as kind: text"
                    : "the model reads images, and data.train gives text; use a language model, "
                      "such as kind: gpt2");
  }
  if (text == nullptr) return;
  const std::int64_t context = config::language_model_of(experiment.model)->context;
  const auto check = [context](const config::TokenSource& source, const char* path) {
    if (source.length <= context) return;
    throw Error(Exit::config, std::string(path) + ".length is " + std::to_string(source.length) +
                                  " tokens, and the model takes at most " +
                                  std::to_string(context) + " (model.context)");
  };
  check(*text, "data.train");
  if (experiment.data.val) check(*config::text_of(*experiment.data.val), "data.val");
}

void load_start_weights(const config::Model& config, models::Model& model) {
  const auto& weights = config::common(config).weights;
  if (!weights) return;
  checkpoint::load_weights(
      weights->path, model, weights->strict, weights->skip,
      [&config](const NamedTensors& file) { return models::to_model_names(file, config); });
}

void choose_trained(const config::Model& config, std::uint64_t seed, models::Model& model) {
  const config::ModelCommon& common = config::common(config);
  if (common.lora) {
    models::AdapterOptions options;
    options.rank = common.lora->rank;
    options.alpha = common.lora->alpha;
    options.dropout = common.lora->dropout;
    options.targets = common.lora->targets ? *common.lora->targets : usual_targets(config);
    model.add_adapters(options, seed);
  }
  const NamedTensors parameters = model.parameters();
  for (std::size_t i = 0; i < common.freeze.size(); ++i) {
    bool matches = false;
    for (const auto& [name, value] : parameters) {
      if (!glob_match(common.freeze[i], name)) continue;
      matches = true;
      value.set_requires_grad(false);
    }
    if (!matches)
      throw Error(Exit::config, "model.freeze[" + std::to_string(i) + "]: \"" + common.freeze[i] +
                                    "\" matches no parameter of the model; they run from \"" +
                                    parameters.front().name + "\" to \"" + parameters.back().name +
                                    "\"");
  }
  const bool learns = std::any_of(parameters.begin(), parameters.end(),
                                  [](const NamedTensor& one) { return one.value.requires_grad(); });
  if (!learns) throw Error(Exit::config, "model.freeze leaves no parameter that learns");
}

at::MemoryFormat memory_format(const config::Experiment& experiment, at::Device device) {
  using config::MemoryFormat;
  const MemoryFormat wanted = config::common(experiment.model).memory_format;
  const bool last = wanted == MemoryFormat::channels_last ||
                    (wanted == MemoryFormat::automatic && device.is_cuda());
  return last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

at::ScalarType input_type(const config::Experiment& experiment, at::Device device) {
  using config::PrecisionMode;
  if (!device.is_cuda() || experiment.precision.mode == PrecisionMode::fp32) return at::kFloat;
  return experiment.precision.mode == PrecisionMode::bf16 ? at::kBFloat16 : at::kHalf;
}

std::vector<at::Tensor> resident_tensors(const models::Model& model) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& parameter : model.parameters()) tensors.push_back(parameter.value);
  for (const NamedTensor& buffer : model.buffers()) tensors.push_back(buffer.value);
  return tensors;
}

}  // namespace trainer::engine

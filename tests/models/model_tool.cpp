// The C++ side of interop_test.py and transformers_interop_test.py: writes a model's weights and
// its logits, or computes the logits of weights that Python wrote. Every file is safetensors;
// models are in evaluation mode.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/linear.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "models/hugging_face.h"
#include "models/model.h"
#include "support/formula.h"
#include "support/golden.h"

namespace {

using namespace trainer;

constexpr const char* kUsage =
    "model_tool export KIND CLASSES SEED FILE: the state to FILE, and to FILE.logits `logits` of\n"
    "  formula::model_input({2, 3, 64, 64})\n"
    "model_tool check KIND CLASSES FILE IN OUT: `logits` to OUT of `input` in IN with FILE's "
    "weights\n"
    "model_tool folder HF OUT: reads transformers' folder HF, and writes one to OUT, with "
    "`logits`\n"
    "  to OUT/logits\n"
    "model_tool adapter HF OUT: gives HF's model adapters, writes them to OUT as peft does, and\n"
    "  `logits` with them to OUT/logits\n";

std::unique_ptr<models::Model> make(const std::string& kind, const std::string& classes,
                                    std::uint64_t seed) {
  auto model =
      models::make_model(golden::model({{"kind", kind}}), {3, 64, 64}, std::stoll(classes), seed);
  model->set_training(false);
  return model;
}

void write_logits(models::Model& model, const at::Tensor& input, const std::string& file) {
  const at::NoGradGuard no_grad;
  checkpoint::write_safetensors(file, {{"logits", model.forward(input).logits}});
}

void write_text(const std::filesystem::path& file, const nlohmann::json& values) {
  std::ofstream(file) << values.dump(2) << '\n';
}

// The inputs of transformers_interop_test.py.
at::Tensor input_of(const config::Model& config) {
  if (std::holds_alternative<config::Vit>(config)) return formula::model_input({2, 3, 32, 32});
  return formula::targets(2 * 24, 65, 11).view({2, 24});
}

void write_output(models::Model& model, const config::Model& config, const std::string& file) {
  const at::NoGradGuard no_grad;
  const Output output = model.forward(input_of(config));
  const at::Tensor logits =
      output.hidden.defined() ? at::linear(output.hidden, output.head) : output.logits;
  checkpoint::write_safetensors(file, {{"logits", logits}});
}

struct FromFolder {
  config::Model config;
  std::int64_t classes;
  std::unique_ptr<models::Model> model;
};

FromFolder read_folder(const std::string& folder) {
  FromFolder made;
  made.config = models::read_hugging_face(folder);
  const auto* vit = std::get_if<config::Vit>(&made.config);
  made.classes = vit != nullptr ? vit->classes.value() : 65;
  made.model = models::make_model(made.config, {3, 32, 32}, made.classes, 0);
  State state;
  state.tensors = models::to_model_names(
      checkpoint::read_safetensors(folder + "/model.safetensors"), made.config);
  made.model->load(state);
  made.model->set_training(false);
  return made;
}

void copy_folder(const std::string& from, const std::string& to) {
  const FromFolder made = read_folder(from);
  write_text(to + "/config.json", models::hugging_face_config(made.config, made.classes));
  checkpoint::write_safetensors(to + "/model.safetensors",
                                models::to_hugging_face(made.model->state().tensors, made.config));
  write_output(*made.model, made.config, to + "/logits");
}

// Every `up` gets values, as if it had been trained.
void adapt(const std::string& from, const std::string& to) {
  const at::NoGradGuard no_grad;
  const FromFolder made = read_folder(from);
  models::AdapterOptions options;
  options.rank = 4;
  options.targets = {std::holds_alternative<config::Gpt2>(made.config) ? "*.attn.c_*" : "*_proj"};
  made.model->add_adapters(options, 1);
  std::int64_t salt = 100;
  for (const models::AdaptedLayer& layer : made.model->adapted_layers()) {
    layer.up.copy_(formula::tensor(layer.up.sizes(), ++salt, 0.1));
  }
  write_text(to + "/adapter_config.json", models::peft_config(*made.model, options, from));
  checkpoint::write_safetensors(to + "/adapter_model.safetensors",
                                models::peft_tensors(*made.model));
  write_output(*made.model, made.config, to + "/logits");
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 5 && arguments[0] == "export") {
    const auto model = make(arguments[1], arguments[2], std::stoull(arguments[3]));
    checkpoint::write_safetensors(arguments[4], model->state().tensors);
    write_logits(*model, formula::model_input({2, 3, 64, 64}), arguments[4] + ".logits");
    return 0;
  }
  if (arguments.size() == 6 && arguments[0] == "check") {
    const auto model = make(arguments[1], arguments[2], 0);
    checkpoint::load_weights(arguments[3], *model, /*strict=*/true, {});
    write_logits(*model, checkpoint::read_safetensors(arguments[4]).at(0).value, arguments[5]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "folder") {
    copy_folder(arguments[1], arguments[2]);
    return 0;
  }
  if (arguments.size() == 3 && arguments[0] == "adapter") {
    adapt(arguments[1], arguments[2]);
    return 0;
  }
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace

int main(int count, char** values) {
  try {
    return run({values + 1, values + count});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// Every kind of model: one overload a kind.
#include "core/error.h"
#include "models/gpt2.h"
#include "models/lenet.h"
#include "models/llama.h"
#include "models/mlp.h"
#include "models/model.h"
#include "models/resnet.h"
#include "models/vit.h"

namespace trainer::models {
namespace {

struct Make {
  const InputShape& input;
  std::int64_t classes;
  std::uint64_t seed;

  std::unique_ptr<Model> operator()(const config::Mlp& mlp) const {
    return std::make_unique<Mlp>(mlp, input, classes, seed);
  }
  std::unique_ptr<Model> operator()(const config::LeNet&) const {
    return std::make_unique<LeNet>(input, classes, seed);
  }
  std::unique_ptr<Model> operator()(const config::ResNet& resnet) const {
    return std::make_unique<ResNet>(resnet, input, classes, seed);
  }
  std::unique_ptr<Model> operator()(const config::Gpt2& gpt2) const {
    return std::make_unique<Gpt2>(gpt2, classes, seed);
  }
  std::unique_ptr<Model> operator()(const config::Llama& llama) const {
    return std::make_unique<Llama>(llama, classes, seed);
  }
  std::unique_ptr<Model> operator()(const config::Vit& vit) const {
    return std::make_unique<Vit>(vit, input, classes, seed);
  }
  std::unique_ptr<Model> operator()(const config::HuggingFace& folder) const {
    throw Error(Exit::internal, "the model of " + folder.path +
                                    " was not read before it was made: read_hugging_face gives "
                                    "the kind that make_model takes");
  }
};

bool takes_images(const config::Model& config) {
  return !std::holds_alternative<config::HuggingFace>(config) &&
         !std::holds_alternative<config::Gpt2>(config) &&
         !std::holds_alternative<config::Llama>(config);
}

void require_input(const InputShape& input) {
  if (input.channels >= 1 && input.height >= 1 && input.width >= 1) return;
  throw Error(Exit::config, "the model's input is " + std::to_string(input.channels) + "x" +
                                std::to_string(input.height) + "x" + std::to_string(input.width) +
                                " (channels x height x width), and every size must be at least 1: "
                                "check data.train and its transforms");
}

}  // namespace

std::unique_ptr<Model> make_model(const config::Model& config, const InputShape& input,
                                  std::int64_t classes, std::uint64_t seed) {
  const bool images = takes_images(config);
  if (images) require_input(input);
  if (classes < 1) {
    throw Error(Exit::config, std::string(images ? "model.classes" : "model.vocabulary") + " is " +
                                  std::to_string(classes) + ", and a model has at least one " +
                                  (images ? "class" : "token"));
  }
  std::unique_ptr<Model> model = std::visit(Make{input, classes, seed}, config);
  model->to(at::kCPU, at::MemoryFormat::Contiguous);
  return model;
}

}  // namespace trainer::models

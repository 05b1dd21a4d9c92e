// Every kind of model: one overload a kind.
#include "core/error.h"
#include "models/lenet.h"
#include "models/mlp.h"
#include "models/model.h"
#include "models/resnet.h"

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
};

}  // namespace

std::unique_ptr<Model> make_model(const config::Model& config, const InputShape& input,
                                  std::int64_t classes, std::uint64_t seed) {
  if (input.channels < 1 || input.height < 1 || input.width < 1) {
    throw Error(Exit::config,
                "the model's input is " + std::to_string(input.channels) + "x" +
                    std::to_string(input.height) + "x" + std::to_string(input.width) +
                    " (channels x height x width), and every size must be at least 1: "
                    "check data.train and its transforms");
  }
  if (classes < 1) {
    throw Error(Exit::config, "model.classes is " + std::to_string(classes) +
                                  ", and a model has at least one class");
  }
  std::unique_ptr<Model> model = std::visit(Make{input, classes, seed}, config);
  model->to(at::kCPU, at::MemoryFormat::Contiguous);
  return model;
}

}  // namespace trainer::models

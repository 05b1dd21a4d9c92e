// What every model promises to the rest of the program.
#include "models/model.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/error.h"
#include "support/formula.h"

namespace trainer::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

config::ResNet cifar_resnet(int depth = 18) {
  config::ResNet resnet;
  resnet.depth = depth;
  resnet.stem = config::Stem::cifar;
  return resnet;
}

config::Mlp small_mlp() {
  config::Mlp mlp;
  mlp.hidden = {8};
  return mlp;
}

std::unique_ptr<Model> small_resnet(std::uint64_t seed = 1) {
  return make_model(cifar_resnet(), {3, 8, 8}, 10, seed);
}

at::Tensor named(const NamedTensors& tensors, const std::string& name) {
  for (const NamedTensor& tensor : tensors) {
    if (tensor.name == name) return tensor.value;
  }
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

bool same_state(const Model& a, const Model& b) {
  const NamedTensors left = a.state().tensors;
  const NamedTensors right = b.state().tensors;
  if (names_of(left) != names_of(right)) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (!at::equal(left[i].value, right[i].value)) return false;
  }
  return true;
}

State copied(const State& state) {
  State copy;
  for (const auto& [name, value] : state.tensors) {
    copy.tensors.push_back({name, value.detach().clone()});
  }
  return copy;
}

std::string error_text(Exit code, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Registry, NamesTheParametersOfSmallModels) {
  config::Mlp mlp;
  mlp.hidden = {8, 4};
  EXPECT_THAT(names_of(make_model(mlp, {1, 2, 2}, 3, 0)->parameters()),
              ElementsAre("layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias",
                          "layers.2.weight", "layers.2.bias"));
  EXPECT_THAT(names_of(make_model(config::LeNet{}, {1, 8, 8}, 10, 0)->parameters()),
              ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight",
                          "fc1.bias", "fc2.weight", "fc2.bias", "fc3.weight", "fc3.bias"));
}

TEST(Registry, MlpWithoutHiddenLayersIsLinear) {
  config::Mlp mlp;
  mlp.hidden = {};
  const auto model = make_model(mlp, {1, 2, 3}, 4, 0);
  EXPECT_THAT(names_of(model->parameters()), ElementsAre("layers.0.weight", "layers.0.bias"));
  EXPECT_EQ(model->forward(at::zeros({5, 1, 2, 3})).logits.sizes(), at::IntArrayRef({5, 4}));
}

TEST(Registry, LeNetHasItsUsualSizeOnDigits) {
  std::int64_t total = 0;
  for (const auto& [name, value] : make_model(config::LeNet{}, {1, 28, 28}, 10, 0)->parameters()) {
    total += value.numel();
  }
  EXPECT_EQ(total, 61706);
}

TEST(Registry, TakesTheSmallestImages) {
  EXPECT_EQ(make_model(config::LeNet{}, {1, 4, 4}, 10, 0)
                ->forward(at::zeros({2, 1, 4, 4}))
                .logits.sizes(),
            at::IntArrayRef({2, 10}));
  EXPECT_EQ(
      make_model(cifar_resnet(), {3, 5, 5}, 10, 0)->forward(at::zeros({2, 3, 5, 5})).logits.sizes(),
      at::IntArrayRef({2, 10}));
  EXPECT_EQ(make_model(config::ResNet{}, {3, 17, 17}, 10, 0)
                ->forward(at::zeros({2, 3, 17, 17}))
                .logits.sizes(),
            at::IntArrayRef({2, 10}));
}

TEST(Registry, RefusesSmallImagesAndSaysWhatToChange) {
  const auto refusal = [](const config::Model& config, const InputShape& input) {
    return error_text(Exit::config, [&] { make_model(config, input, 10, 0); });
  };
  EXPECT_EQ(
      refusal(config::LeNet{}, {1, 3, 8}),
      "model.kind: lenet needs images of at least 4x4 pixels, and the data gives 3x8: enlarge "
      "them with a resize transform, or use model.kind: mlp");
  EXPECT_EQ(
      refusal(config::ResNet{}, {3, 32, 16}),
      "model.kind: resnet18 with the imagenet stem needs images of at least 17x17 pixels, and "
      "the data gives 32x16: set model.stem: cifar, or enlarge them with a resize transform");
  EXPECT_EQ(refusal(cifar_resnet(50), {3, 4, 4}),
            "model.kind: resnet50 with the cifar stem needs images of at least 5x5 pixels, and the "
            "data gives 4x4: enlarge them with a resize transform");
  EXPECT_THAT(refusal(small_mlp(), {1, 0, 8}), HasSubstr("the model's input is 1x0x8"));
  EXPECT_EQ(refusal(cifar_resnet(20), {3, 32, 32}),
            "model.kind: resnet20 is not known; choose resnet18, resnet34, resnet50 or resnet101");
  EXPECT_THAT(error_text(Exit::config,
                         [] {
                           make_model(small_mlp(), {1, 8, 8}, 0, 0);
                         }),
              HasSubstr("model.classes is 0"));
}

TEST(Initialisation, DependsOnTheSeedAlone) {
  const at::Generator& generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor before = generator.get_state();
  const auto first = small_resnet(5);
  EXPECT_TRUE(at::equal(before, generator.get_state())) << "the default generator has moved";
  EXPECT_TRUE(same_state(*first, *small_resnet(5)));
  EXPECT_FALSE(same_state(*first, *small_resnet(6)));
}

TEST(Initialisation, ZeroInitResidualStartsBlocksAsIdentities) {
  for (const int depth : {18, 50}) {
    config::ResNet resnet = cifar_resnet(depth);
    resnet.zero_init_residual = true;
    const std::string last = depth == 18 ? ".bn2.weight" : ".bn3.weight";
    int zeroed = 0;
    for (const auto& [name, value] : make_model(resnet, {3, 8, 8}, 10, 0)->parameters()) {
      if (name.find("bn") == std::string::npos || !name.ends_with(".weight")) continue;
      const bool is_last = name.ends_with(last);
      zeroed += is_last ? 1 : 0;
      EXPECT_EQ(value.min().item<float>(), is_last ? 0.0F : 1.0F) << name;
      EXPECT_EQ(value.max().item<float>(), is_last ? 0.0F : 1.0F) << name;
    }
    EXPECT_EQ(zeroed, depth == 18 ? 8 : 16);
  }
}

TEST(Training, CountsBatchesAndMovesRunningStatistics) {
  const auto model = small_resnet();
  const at::Tensor input = formula::model_input({4, 3, 8, 8});
  const at::Tensor mean = named(model->buffers(), "bn1.running_mean");
  const at::Tensor counter = named(model->buffers(), "layer4.1.bn2.num_batches_tracked");

  model->set_training(false);
  const at::Tensor evaluated = model->forward(input).logits;
  EXPECT_EQ(counter.item<std::int64_t>(), 0);
  EXPECT_EQ(mean.abs().max().item<float>(), 0.0F);

  model->set_training(true);
  model->forward(input);
  model->forward(input);
  for (const auto& [name, value] : model->buffers()) {
    if (name.ends_with("num_batches_tracked")) {
      EXPECT_EQ(value.item<std::int64_t>(), 2) << name;
    }
  }
  EXPECT_GT(mean.abs().max().item<float>(), 0.0F);

  model->set_training(false);
  EXPECT_FALSE(at::equal(evaluated, model->forward(input).logits));
}

TEST(Training, RefusesBatchStatisticsOfOneValue) {
  const auto model = small_resnet();
  const at::Tensor one = formula::model_input({1, 3, 8, 8});
  EXPECT_THAT(error_text(Exit::config, [&] { model->forward(one); }),
              HasSubstr("raise batch.micro, set data.loader.drop_last: true"));
  model->set_training(false);
  EXPECT_NO_THROW(model->forward(one));
}

TEST(Training, DropsOutOnlyInTraining) {
  config::Mlp mlp = small_mlp();
  mlp.dropout = 0.5;
  const auto model = make_model(mlp, {1, 4, 4}, 10, 0);
  const at::Tensor input = formula::model_input({16, 1, 4, 4});
  EXPECT_FALSE(at::equal(model->forward(input).logits, model->forward(input).logits));

  model->set_training(false);
  const at::Tensor evaluated = model->forward(input).logits;
  EXPECT_TRUE(at::equal(evaluated, model->forward(input).logits));
  const auto without = make_model(small_mlp(), {1, 4, 4}, 10, 0);
  EXPECT_TRUE(at::equal(evaluated, without->forward(input).logits));
}

TEST(Buffers, LiveInOneStorageForEachDtype) {
  const auto model = small_resnet();
  const std::vector<at::Tensor>& storage = model->buffer_storage();
  ASSERT_EQ(storage.size(), 2U);
  EXPECT_EQ(storage[0].scalar_type(), at::kFloat);
  EXPECT_EQ(storage[1].scalar_type(), at::kLong);
  std::int64_t elements = 0;
  for (const auto& [name, value] : model->buffers()) {
    elements += value.numel();
    const at::Tensor& home = storage[value.scalar_type() == at::kFloat ? 0 : 1];
    EXPECT_TRUE(value.is_alias_of(home)) << name;
    EXPECT_TRUE(value.is_contiguous()) << name;
  }
  EXPECT_EQ(storage[0].numel() + storage[1].numel(), elements);
  EXPECT_TRUE(make_model(small_mlp(), {1, 8, 8}, 10, 0)->buffer_storage().empty());
}

TEST(Buffers, AreSavedAndPutBackThroughTheirStorage) {
  const auto model = small_resnet();
  const State before = copied(model->state());
  std::vector<at::Tensor> saved;
  for (const at::Tensor& storage : model->buffer_storage()) saved.push_back(storage.clone());
  model->forward(formula::model_input({4, 3, 8, 8}));
  EXPECT_FALSE(at::equal(named(model->buffers(), "bn1.running_var"),
                         named(before.tensors, "bn1.running_var")));

  for (std::size_t i = 0; i < saved.size(); ++i) model->buffer_storage()[i].copy_(saved[i]);
  for (const auto& [name, value] : model->buffers()) {
    EXPECT_TRUE(at::equal(value, named(before.tensors, name))) << name;
  }
}

TEST(Placement, KeepsHandlesValuesAndBuffers) {
  const auto model = small_resnet();
  model->set_training(false);
  const at::Tensor input = formula::model_input({4, 3, 8, 8});
  const at::Tensor before = model->forward(input).logits;
  const NamedTensors handles = model->parameters();
  const NamedTensors buffers = model->buffers();

  model->to(at::kCPU, at::MemoryFormat::ChannelsLast);
  for (const auto& [name, value] : model->parameters()) {
    const at::Tensor handle = named(handles, name);
    EXPECT_TRUE(handle.is_same(value)) << name;
    EXPECT_TRUE(value.requires_grad()) << name;
    if (value.dim() == 4) {
      EXPECT_TRUE(value.is_contiguous(at::MemoryFormat::ChannelsLast)) << name;
    }
  }
  for (const auto& [name, value] : buffers) {
    const std::size_t home = value.scalar_type() == at::kFloat ? 0 : 1;
    EXPECT_TRUE(value.is_alias_of(model->buffer_storage()[home])) << name;
  }
  const at::Tensor after = model->forward(input).logits;
  EXPECT_LT(before.sub(after).abs().max().item<float>(), 1e-5F);

  after.sum().backward();
  EXPECT_TRUE(named(handles, "conv1.weight").grad().defined());
}

// A gradient of one forward pass survives another: evaluation between forward and backward, or two
// forward passes before their backward ones, must not touch what autograd saved.
TEST(Gradients, SurviveAnotherForwardPass) {
  const auto model = small_resnet();
  const at::Tensor input = formula::model_input({4, 3, 8, 8});
  const at::Tensor first = model->forward(input).logits.sum();
  const at::Tensor second = model->forward(input).logits.sum();
  EXPECT_NO_THROW(second.backward());
  EXPECT_NO_THROW(first.backward());
}

TEST(State, LoadsIntoAnEqualModel) {
  const auto source = small_resnet(1);
  source->forward(formula::model_input({4, 3, 8, 8}));
  const auto target = small_resnet(2);
  const at::Tensor handle = named(target->parameters(), "fc.weight");
  target->load(copied(source->state()));
  EXPECT_TRUE(same_state(*source, *target));
  EXPECT_TRUE(at::equal(handle, named(source->parameters(), "fc.weight"))) << "not in place";
  EXPECT_TRUE(at::equal(target->buffer_storage()[1], source->buffer_storage()[1]));
}

TEST(State, ConvertsTheDtype) {
  const auto model = make_model(small_mlp(), {1, 2, 2}, 3, 1);
  State halves = copied(model->state());
  for (NamedTensor& tensor : halves.tensors) tensor.value = tensor.value.to(at::kBFloat16);
  const auto target = make_model(small_mlp(), {1, 2, 2}, 3, 2);
  target->load(halves);
  EXPECT_TRUE(at::equal(named(target->parameters(), "layers.0.weight"),
                        halves.tensors[0].value.to(at::kFloat)));
}

TEST(State, ListsEverythingThatDoesNotFit) {
  const auto model = make_model(small_mlp(), {1, 2, 2}, 3, 1);
  const State before = copied(model->state());
  State state = copied(before);
  state.tensors[0].value = at::zeros({8, 9});
  state.tensors[1].name = "layers.0.scale";
  EXPECT_EQ(error_text(Exit::storage, [&] { model->load(state); }),
            "the saved weights do not fit the model: 1 missing (layers.0.bias); 1 unexpected "
            "(layers.0.scale [8]); 1 of another shape (layers.0.weight [8, 9] where the model has "
            "[8, 4]). They come from another architecture: compare model.kind, model.classes and "
            "the image size with the run that saved them");
  for (const auto& [name, value] : model->state().tensors) {
    EXPECT_TRUE(at::equal(value, named(before.tensors, name))) << name << " has changed";
  }
}

TEST(State, CountsTheNamesItDoesNotList) {
  const std::string text = error_text(Exit::storage, [] { small_resnet()->load(State{}); });
  EXPECT_THAT(text, HasSubstr("122 missing (conv1.weight, bn1.weight, "));
  EXPECT_THAT(text, HasSubstr("layer1.0.bn1.running_mean, and 112 more)"));
  EXPECT_THAT(text, Not(HasSubstr("unexpected")));
}

}  // namespace
}  // namespace trainer::models

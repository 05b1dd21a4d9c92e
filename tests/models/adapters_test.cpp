#include "models/adapters.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "support/errors.h"
#include "support/formula.h"

namespace trainer::models {
namespace {

using testing::ElementsAre;

std::unique_ptr<Model> small_gpt2(std::uint64_t seed = 1) {
  config::Gpt2 gpt2;
  gpt2.layers = 2;
  gpt2.heads = 2;
  gpt2.width = 16;
  gpt2.context = 12;
  return make_model(gpt2, {}, 33, seed);
}

std::unique_ptr<Model> small_llama() {
  config::Llama llama;
  llama.layers = 2;
  llama.heads = 2;
  llama.width = 16;
  llama.intermediate = 24;
  llama.context = 12;
  return make_model(llama, {}, 33, 1);
}

at::Tensor tokens() { return formula::targets(24, 33).view({2, 12}); }

at::Tensor logits(Model& model) {
  const Output output = model.forward(tokens());
  return at::linear(output.hidden, output.head);
}

// As if it had been trained.
void fill_up(const Model& model) {
  const at::NoGradGuard no_grad;
  std::int64_t salt = 50;
  for (const AdaptedLayer& layer : model.adapted_layers()) {
    layer.up.copy_(formula::tensor(layer.up.sizes(), ++salt, 0.3));
  }
}

TEST(Adapters, ChangeNothingAtFirst) {
  const auto model = small_gpt2();
  const at::Tensor before = logits(*model);
  EXPECT_THAT(model->add_adapters({.rank = 4, .targets = {"*.c_attn"}}, 1),
              ElementsAre("transformer.h.0.attn.c_attn", "transformer.h.1.attn.c_attn"));
  EXPECT_TRUE(at::equal(before, logits(*model)));
}

TEST(Adapters, AreTheOnlyParametersThatLearn) {
  const auto model = small_gpt2();
  const std::size_t others = model->parameters().size();
  model->add_adapters({.rank = 4, .targets = {"*.c_attn", "*.mlp.*"}}, 1);
  fill_up(*model);
  logits(*model).sum().backward();
  const NamedTensors parameters = model->parameters();
  ASSERT_EQ(parameters.size(), others + 2 * 2 * 3);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, value] = parameters[i];
    EXPECT_EQ(value.requires_grad(), i >= others) << name;
    EXPECT_EQ(value.grad().defined(), i >= others) << name;
  }
  EXPECT_EQ(parameters[others].name, "transformer.h.0.attn.c_attn.lora_A.weight");
  EXPECT_EQ(parameters[others].value.sizes(), at::IntArrayRef({4, 16}));
  EXPECT_EQ(parameters[others + 1].name, "transformer.h.0.attn.c_attn.lora_B.weight");
  EXPECT_EQ(parameters[others + 1].value.sizes(), at::IntArrayRef({48, 4}));
}

TEST(Adapters, MergeIntoTheWeights) {
  for (const bool gpt2 : {true, false}) {
    const auto model = gpt2 ? small_gpt2() : small_llama();
    const NamedTensors plain = model->state().tensors;
    model->add_adapters({.rank = 3, .alpha = 6, .targets = {"*"}}, 1);
    fill_up(*model);
    const at::Tensor wanted = logits(*model);
    const auto merged = gpt2 ? small_gpt2(2) : small_llama();
    EXPECT_GT(wanted.sub(logits(*merged)).abs().max().item<double>(), 1e-3);
    State state;
    state.tensors = merged_state(*model);
    EXPECT_EQ(state.tensors.size(), plain.size());
    merged->load(state);
    const double scale = wanted.abs().max().item<double>();
    EXPECT_LT(wanted.sub(logits(*merged)).abs().max().item<double>(), 1e-5 * scale);
  }
}

TEST(Adapters, DropOutOnlyInTraining) {
  const auto model = small_llama();
  model->add_adapters({.rank = 4, .dropout = 0.5, .targets = {"*.q_proj"}}, 1);
  fill_up(*model);
  EXPECT_FALSE(at::equal(logits(*model), logits(*model)));
  model->set_training(false);
  EXPECT_TRUE(at::equal(logits(*model), logits(*model)));
}

TEST(Adapters, HavePeftsNames) {
  const auto model = small_gpt2();
  const AdapterOptions options{.rank = 4, .alpha = 8, .targets = {"*.0.attn.c_attn"}};
  model->add_adapters(options, 1);
  const NamedTensors tensors = peft_tensors(*model);
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors[0].name, "base_model.model.transformer.h.0.attn.c_attn.lora_A.weight");
  EXPECT_EQ(tensors[1].name, "base_model.model.transformer.h.0.attn.c_attn.lora_B.weight");
  const nlohmann::json config = peft_config(*model, options, "base");
  EXPECT_EQ(config.at("target_modules"), nlohmann::json({"transformer.h.0.attn.c_attn"}));
  EXPECT_EQ(config.at("fan_in_fan_out"), true);
  EXPECT_EQ(config.at("task_type"), "CAUSAL_LM");
}

TEST(Adapters, DependOnTheirSeedAlone) {
  const auto drawn = [](std::uint64_t seed) {
    const auto model = small_gpt2();
    model->add_adapters({.rank = 4, .targets = {"*.c_fc"}}, seed);
    return model->adapted_layers().front().down;
  };
  EXPECT_TRUE(at::equal(drawn(1), drawn(1)));
  EXPECT_FALSE(at::equal(drawn(1), drawn(2)));
  EXPECT_LE(drawn(1).abs().max().item<double>(), 0.25);
}

TEST(Adapters, NameATargetThatMatchesNothing) {
  EXPECT_EQ(
      error_of(Exit::config, [] { small_gpt2()->add_adapters({.targets = {"*.q_proj"}}, 1); }),
      "the adapters' target \"*.q_proj\" matches no linear layer: the model has "
      "transformer.h.0.attn.c_attn to transformer.h.1.mlp.c_proj; \"*\" takes all 8");
}

}  // namespace
}  // namespace trainer::models

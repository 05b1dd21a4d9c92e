// What the language models promise beyond their reference's numbers: blocks, documents, decoding.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "support/errors.h"
#include "support/formula.h"

namespace trainer::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kVocabulary = 33;

config::Gpt2 small_gpt2() {
  config::Gpt2 gpt2;
  gpt2.layers = 3;
  gpt2.heads = 2;
  gpt2.width = 16;
  gpt2.context = 20;
  return gpt2;
}

config::Llama small_llama() {
  config::Llama llama;
  llama.layers = 3;
  llama.heads = 4;
  llama.kv_heads = 2;
  llama.width = 32;
  llama.intermediate = 24;
  llama.context = 20;
  llama.tied = false;
  return llama;
}

std::unique_ptr<Model> make(const config::Model& config) {
  auto model = make_model(config, {}, kVocabulary, 1);
  formula::fill_state(model->state());
  return model;
}

const std::vector<config::Model>& both() {
  static const std::vector<config::Model> configs{small_gpt2(), small_llama()};
  return configs;
}

at::Tensor tokens(std::int64_t rows, std::int64_t length, std::int64_t step = 0) {
  return formula::targets(rows * length, kVocabulary, step).view({rows, length});
}

at::Tensor logits(const Output& output) { return at::linear(output.hidden, output.head); }

double distance(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<double>();
}

TEST(LanguageModel, ListsATiedHeadOnce) {
  const auto model = make(small_gpt2());
  const Output output = model->forward(tokens(1, 4));
  EXPECT_TRUE(output.head.is_same(model->parameters().front().value));
  EXPECT_EQ(model->parameters().front().name, "transformer.wte.weight");
  EXPECT_EQ(model->parameters().back().name, "transformer.ln_f.bias");
  EXPECT_EQ(make(small_llama())->parameters().back().name, "lm_head.weight");
}

TEST(LanguageModel, GivesHiddenStatesAndTheHeadAlone) {
  for (const config::Model& config : both()) {
    const Output output = make(config)->forward(tokens(2, 5));
    EXPECT_FALSE(output.logits.defined());
    EXPECT_EQ(output.hidden.size(0), 2);
    EXPECT_EQ(output.hidden.size(1), 5);
    EXPECT_EQ(output.head.size(0), kVocabulary);
  }
}

TEST(LanguageModel, SeesNothingThatFollows) {
  for (const config::Model& config : both()) {
    const auto model = make(config);
    const at::Tensor changed = tokens(1, 12).clone();
    changed[0][9] = 1;
    const at::Tensor left = model->forward(tokens(1, 12)).hidden;
    const at::Tensor right = model->forward(changed).hidden;
    EXPECT_LT(distance(left.narrow(1, 0, 9), right.narrow(1, 0, 9)), 1e-6);
    EXPECT_GT(distance(left.narrow(1, 9, 1), right.narrow(1, 9, 1)), 1e-3);
  }
}

TEST(LanguageModel, KeepsDocumentsOfARowApart) {
  for (const config::Model& config : both()) {
    const auto model = make(config);
    const at::Tensor first = tokens(1, 7, 3);
    const at::Tensor second = tokens(1, 5, 9);
    Batch packed;
    packed.input = at::cat({first, second}, 1);
    packed.documents =
        at::tensor(std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, at::kLong)
            .unsqueeze(0);
    packed.positions =
        at::tensor(std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4}, at::kLong)
            .unsqueeze(0);
    const at::Tensor together = model->forward(packed).hidden;
    const at::Tensor apart =
        at::cat({model->forward(first).hidden, model->forward(second).hidden}, 1);
    EXPECT_LT(distance(together, apart), 1e-5);
    EXPECT_GT(distance(model->forward(packed.input).hidden, apart), 1e-3) << "nothing to mask";
  }
}

TEST(LanguageModel, RefusesSequencesLongerThanTheContext) {
  for (const config::Model& config : both()) {
    const auto model = make(config);
    EXPECT_NO_THROW(model->forward(tokens(1, 20)));
    EXPECT_EQ(error_of(Exit::config, [&] { model->forward(tokens(1, 21)); }),
              "a sequence of 21 tokens is longer than model.context, which is 20: make the data's "
              "sequences shorter, or raise model.context");
  }
}

TEST(LanguageModel, RefusesSizesThatDoNotGoTogether) {
  config::Gpt2 gpt2 = small_gpt2();
  gpt2.heads = 3;
  EXPECT_THAT(error_of(Exit::config, [&] { make(gpt2); }),
              HasSubstr("model.width 16, which model.heads 3 does not divide"));
  config::Llama llama = small_llama();
  llama.kv_heads = 3;
  EXPECT_THAT(error_of(Exit::config, [&] { make(llama); }),
              HasSubstr("model.heads 4, which model.kv_heads 3 does not divide"));
  llama.kv_heads = 2;
  llama.head_size = 7;
  EXPECT_THAT(error_of(Exit::config, [&] { make(llama); }), HasSubstr("heads of 7 numbers"));
  EXPECT_THAT(error_of(Exit::config, [] { make_model(small_gpt2(), {}, 0, 0); }),
              HasSubstr("model.vocabulary is 0"));
}

TEST(LanguageModel, DropsOutOnlyInTraining) {
  for (config::Model config : both()) {
    std::visit(
        [](auto& one) {
          if constexpr (requires { one.dropout; }) one.dropout = 0.3;
        },
        config);
    const auto model = make(config);
    EXPECT_FALSE(
        at::equal(model->forward(tokens(2, 9)).hidden, model->forward(tokens(2, 9)).hidden));
    model->set_training(false);
    EXPECT_TRUE(
        at::equal(model->forward(tokens(2, 9)).hidden, model->forward(tokens(2, 9)).hidden));
  }
}

TEST(LanguageModel, StartsAsItsReferenceDoes) {
  config::Gpt2 gpt2 = small_gpt2();
  gpt2.width = 128;
  for (const auto& [name, value] : make_model(gpt2, {}, 500, 1)->parameters()) {
    const double std = value.numel() > 1 ? value.std().item<double>() : 0;
    const double mean = value.mean().item<double>();
    double wanted = name.ends_with(".bias") || name.find("ln_") != std::string::npos ? 0 : 0.02;
    if (name.ends_with("c_proj.weight")) wanted = 0.02 / std::sqrt(6.0);
    EXPECT_NEAR(std, wanted, 0.03 * wanted) << name;
    const bool one = name.find("ln_") != std::string::npos && name.ends_with(".weight");
    EXPECT_NEAR(mean, one ? 1 : 0, 0.002) << name;
  }
}

TEST(Blocks, RunThroughTheRunner) {
  std::vector<config::Model> configs = both();
  config::Vit vit;
  vit.image = 8;
  vit.patch = 4;
  vit.layers = 3;
  vit.heads = 2;
  vit.width = 16;
  vit.intermediate = 24;
  configs.emplace_back(vit);
  for (const config::Model& config : configs) {
    const bool images = std::holds_alternative<config::Vit>(config);
    const auto model = make_model(config, {3, 8, 8}, kVocabulary, 1);
    const at::Tensor input = images ? formula::model_input({2, 3, 8, 8}) : tokens(2, 8);
    const auto result = [&] {
      const Output output = model->forward(input);
      return images ? output.logits : output.hidden;
    };
    const at::Tensor plain = result();
    std::vector<std::int64_t> indices;
    model->set_block_runner([&](std::int64_t index, const Block& block, const at::Tensor& x) {
      indices.push_back(index);
      const Block copy = block;
      const at::Tensor once = block(x);
      EXPECT_TRUE(at::equal(once, copy(x)));
      return once;
    });
    EXPECT_TRUE(at::equal(plain, result()));
    EXPECT_THAT(indices, ElementsAre(0, 1, 2));
  }
}

TEST(Blocks, OfAResNetAreItsResidualOnes) {
  config::ResNet resnet;
  resnet.stem = config::Stem::cifar;
  const auto model = make_model(resnet, {3, 8, 8}, 10, 1);
  std::int64_t blocks = 0;
  model->set_block_runner([&](std::int64_t index, const Block& block, const at::Tensor& x) {
    EXPECT_EQ(index, blocks++);
    return block(x);
  });
  model->forward(formula::model_input({4, 3, 8, 8}));
  EXPECT_EQ(blocks, 8);
}

TEST(Decoding, EqualsTheWholeForwardPass) {
  std::vector<config::Model> configs = both();
  config::Llama scaled = small_llama();
  scaled.rope_scaling.kind = config::RopeScaling::Kind::llama3;
  scaled.rope_scaling.factor = 4;
  scaled.rope_scaling.original_context = 8;
  configs.emplace_back(scaled);
  for (const config::Model& config : configs) {
    const auto model = make(config);
    const at::Tensor input = tokens(3, 17);
    const at::Tensor whole = logits(model->forward(input));
    const auto decoder = model->decoder(3);
    ASSERT_NE(decoder, nullptr);
    EXPECT_EQ(decoder->capacity(), 20);
    std::int64_t at = 0;
    for (const std::int64_t count : {5, 1, 1, 4, 1, 5}) {
      const at::Tensor step = decoder->step(input.narrow(1, at, count));
      at += count;
      EXPECT_EQ(decoder->length(), at);
      EXPECT_LT(distance(step, whole.select(1, at - 1)), 1e-5) << "after " << at << " tokens";
      EXPECT_FALSE(step.requires_grad());
    }
    decoder->clear();
    EXPECT_LT(distance(decoder->step(input.narrow(1, 0, 3)), whole.select(1, 2)), 1e-5);
  }
}

TEST(Decoding, RefusesMoreThanFits) {
  const auto model = make(small_gpt2());
  const auto decoder = model->decoder(1, 6);
  decoder->step(tokens(1, 5));
  EXPECT_EQ(error_of(Exit::config, [&] { decoder->step(tokens(1, 2)); }),
            "decoding would come to 7 tokens, and there is room for 6: shorten the prompt, or ask "
            "for fewer tokens");
  EXPECT_NO_THROW(decoder->step(tokens(1, 1)));
  EXPECT_THAT(error_of(Exit::config, [&] { model->decoder(1, 21); }), HasSubstr("model.context"));
}

TEST(Decoding, IsForLanguageModelsAlone) {
  EXPECT_EQ(make_model(config::LeNet{}, {1, 8, 8}, 10, 0)->decoder(1), nullptr);
}

}  // namespace
}  // namespace trainer::models

#include "models/hugging_face.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "support/errors.h"
#include "support/files.h"
#include "support/formula.h"
#include "support/golden.h"

namespace trainer::models {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// transformers' default config.json of a kind, with changes.
json config_of(const std::string& kind, const json& changes = json::object()) {
  json config = golden::read("models/hf_config.json").at(kind);
  if (changes.is_object()) config.update(changes);
  return config;
}

config::Llama llama_of(const std::string& kind, const json& changes = json::object(),
                       std::optional<std::int64_t> context = std::nullopt) {
  return std::get<config::Llama>(
      from_hugging_face_config(config_of(kind, changes), "config.json", context));
}

std::string refusal(const std::string& kind, const json& changes,
                    std::optional<std::int64_t> context = std::nullopt) {
  return error_of(Exit::config, [&] {
    from_hugging_face_config(config_of(kind, changes), "x/config.json", context);
  });
}

std::vector<std::string> names_of(const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

NamedTensors empty_tensors(const std::vector<std::string>& names) {
  NamedTensors tensors;
  for (const std::string& name : names) tensors.push_back({name, at::zeros({1})});
  return tensors;
}

config::Vit small_vit() {
  config::Vit vit;
  vit.image = 8;
  vit.patch = 4;
  vit.layers = 2;
  vit.heads = 2;
  vit.width = 16;
  vit.intermediate = 24;
  return vit;
}

TEST(HuggingFaceConfig, ReadsGpt2) {
  const auto gpt2 =
      std::get<config::Gpt2>(from_hugging_face_config(config_of("gpt2"), "config.json"));
  EXPECT_EQ(gpt2.layers, 12);
  EXPECT_EQ(gpt2.width, 768);
  EXPECT_EQ(gpt2.context, 1024);
  EXPECT_EQ(gpt2.vocabulary, 50257);
  EXPECT_EQ(gpt2.dropout, 0.1);
  EXPECT_TRUE(gpt2.tied);
  EXPECT_FALSE(gpt2.intermediate.has_value());
}

TEST(HuggingFaceConfig, ReadsTheLlamaFamily) {
  const config::Llama llama = llama_of("llama");
  EXPECT_EQ(llama.width, 4096);
  EXPECT_EQ(llama.kv_heads, 32);
  EXPECT_EQ(llama.norm_eps, 1e-6);
  EXPECT_FALSE(llama.tied);
  EXPECT_FALSE(llama.qkv_bias);
  EXPECT_TRUE(llama_of("qwen2").qkv_bias);
  EXPECT_EQ(llama_of("mistral", {}, 4096).kv_heads, 8);
}

// As transformers 4 wrote it.
TEST(HuggingFaceConfig, ReadsTheOlderFormOfRotaryScaling) {
  const config::Llama llama = llama_of(
      "llama", {{"rope_parameters", nullptr},
                {"rope_theta", 500000.0},
                {"rope_scaling",
                 {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512}}}});
  EXPECT_EQ(llama.rope_theta, 500000.0);
  EXPECT_EQ(llama.rope_scaling.kind, config::RopeScaling::Kind::yarn);
  EXPECT_EQ(llama.rope_scaling.factor, 4.0);
  EXPECT_EQ(llama.rope_scaling.original_context, 512);
}

TEST(HuggingFaceConfig, KnowsAWindowThatDoesNotBind) {
  EXPECT_EQ(llama_of("mistral", {}, 4096).context, 4096);
  EXPECT_EQ(llama_of("mistral", {{"sliding_window", nullptr}}).context, 131072);
  EXPECT_EQ(llama_of("qwen2", {{"sliding_window", 16}}).context, 32768) << "it is not used";
  EXPECT_THAT(refusal("mistral", {}, 4097),
              HasSubstr("x/config.json has sliding_window: 4096, and attention here sees the whole "
                        "context of 4097 tokens: set model.context to at most the window"));
}

TEST(HuggingFaceConfig, NamesWhatItDoesNotSupport) {
  EXPECT_EQ(refusal("llama", {{"model_type", "mamba"}}),
            "x/config.json has model_type: \"mamba\", and only gpt2, llama, mistral, qwen2 and vit "
            "are supported: use another model");
  EXPECT_EQ(refusal("llama", {{"hidden_act", "relu"}}),
            "x/config.json has hidden_act: \"relu\", and only silu or swish is supported: use "
            "another model");
  EXPECT_THAT(refusal("llama", {{"attention_bias", true}}), HasSubstr("attention_bias: true"));
  EXPECT_THAT(refusal("llama", {{"mlp_bias", true}}), HasSubstr("mlp_bias: true"));
  EXPECT_THAT(refusal("llama", {{"hidden_size", "many"}}), HasSubstr("hidden_size: \"many\""));
  EXPECT_THAT(refusal("llama", {{"hidden_size", nullptr}}),
              HasSubstr("x/config.json has no hidden_size"));
  EXPECT_THAT(refusal("llama", {{"rope_parameters", {{"rope_type", "longrope"}}}}),
              HasSubstr("x/config.json: rope_parameters has rope_type: \"longrope\""));
  EXPECT_THAT(refusal("gpt2", {{"activation_function", "relu"}}), HasSubstr("activation_function"));
  EXPECT_THAT(refusal("gpt2", {}, 2048), HasSubstr("n_positions: 1024"));
  EXPECT_THAT(refusal("vit", {{"image_size", {224, 192}}}), HasSubstr("image_size: [224,192]"));
}

TEST(HuggingFaceConfig, CountsTheClassesOfAVit) {
  const json labels = {{"id2label", {{"0", "cat"}, {"1", "dog"}, {"2", "eel"}}}};
  const auto vit =
      std::get<config::Vit>(from_hugging_face_config(config_of("vit", labels), "config.json"));
  EXPECT_EQ(vit.classes, 3);
  EXPECT_EQ(vit.norm_eps, 1e-12);
}

TEST(HuggingFaceConfig, IsWrittenAsItIsRead) {
  const auto round_trip = [](const config::Model& config, std::int64_t classes) {
    return from_hugging_face_config(hugging_face_config(config, classes), "config.json");
  };
  config::Gpt2 gpt2;
  gpt2.intermediate = 100;
  gpt2.vocabulary = 65;
  gpt2.dropout = 0.25;
  EXPECT_EQ(round_trip(gpt2, 65), config::Model(gpt2));
  config::Llama llama;
  llama.kv_heads = 4;
  llama.head_size = 32;
  llama.vocabulary = 65;
  for (const char* scaling :
       {R"({"kind": "none"})", R"({"kind": "linear", "factor": 2})",
        R"({"kind": "dynamic", "factor": 2, "original_context": 1024})",
        R"({"kind": "llama3", "factor": 8, "original_context": 256})",
        R"({"kind": "yarn", "factor": 4, "original_context": 256, "beta_fast": 16,
            "attention_factor": 0.5, "truncate": false})"}) {
    llama.rope_scaling = golden::rope_scaling(json::parse(scaling));
    EXPECT_EQ(round_trip(llama, 65), config::Model(llama));
  }
  llama.qkv_bias = true;
  EXPECT_EQ(round_trip(llama, 65), config::Model(llama));
  config::Vit vit = small_vit();
  vit.classes = 3;
  EXPECT_EQ(round_trip(vit, 3), config::Model(vit));
  EXPECT_THAT(error_of(Exit::config, [] { hugging_face_config(config::LeNet{}, 10); }),
              HasSubstr("no class for this model.kind"));
}

using HuggingFaceFolder = Temporary;

TEST_F(HuggingFaceFolder, NeedsAConfig) {
  EXPECT_THAT(error_of(Exit::config, [&] { read_hugging_face(folder_); }),
              HasSubstr((folder_ / "config.json").string() + " cannot be read"));
  write_bytes(folder_ / "config.json", "{\"model_type\": ");
  EXPECT_THAT(error_of(Exit::config, [&] { read_hugging_face(folder_); }),
              HasSubstr("config.json is no JSON"));
  write_bytes(folder_ / "config.json", "[]");
  EXPECT_THAT(error_of(Exit::config, [&] { read_hugging_face(folder_); }),
              HasSubstr("is no table of keys"));
  write_bytes(folder_ / "config.json", config_of("gpt2").dump());
  EXPECT_EQ(std::get<config::Gpt2>(read_hugging_face(folder_, 64)).context, 64);
}

TEST(HuggingFaceNames, OfGpt2TakePrefixesAndLeaveBuffers) {
  config::Gpt2 gpt2;
  const NamedTensors file =
      empty_tensors({"wte.weight", "h.0.attn.bias", "h.0.attn.masked_bias", "h.0.attn.c_attn.bias",
                     "transformer.ln_f.weight", "lm_head.weight", "other"});
  EXPECT_THAT(names_of(to_model_names(file, gpt2)),
              ElementsAre("transformer.wte.weight", "transformer.h.0.attn.c_attn.bias",
                          "transformer.ln_f.weight", "other"));
  gpt2.tied = false;
  EXPECT_EQ(to_model_names(file, gpt2)[3].name, "lm_head.weight");
}

TEST(HuggingFaceNames, CutLearnedPositionsToTheContext) {
  config::Gpt2 gpt2;
  gpt2.context = 3;
  const at::Tensor rows = at::arange(10, at::kFloat).view({5, 2});
  const NamedTensors tensors = to_model_names({{"wpe.weight", rows}}, gpt2);
  EXPECT_TRUE(at::equal(tensors[0].value, rows.narrow(0, 0, 3)));
}

TEST(HuggingFaceNames, OfLlamaTakePrefixesAndLeaveBuffers) {
  config::Llama llama;
  const NamedTensors file =
      empty_tensors({"embed_tokens.weight", "model.layers.0.self_attn.rotary_emb.inv_freq",
                     "layers.0.mlp.up_proj.weight", "norm.weight", "lm_head.weight"});
  EXPECT_THAT(names_of(to_model_names(file, llama)),
              ElementsAre("model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight",
                          "model.norm.weight"));
}

TEST(HuggingFaceNames, OfAVitGoThereAndBack) {
  const config::Vit vit = small_vit();
  const auto model = make_model(vit, {3, 8, 8}, 5, 1);
  formula::fill_state(model->state());
  const NamedTensors own = model->state().tensors;
  const NamedTensors theirs = to_hugging_face(own, vit);
  EXPECT_EQ(theirs.size(), own.size() + 2 * 2 * 2) << "three of one in two layers, with biases";
  EXPECT_THAT(names_of(theirs),
              testing::Contains("vit.encoder.layer.1.attention.attention.key.bias"));
  const NamedTensors back = to_model_names(theirs, vit);
  ASSERT_EQ(names_of(back), names_of(own));
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_TRUE(at::equal(back[i].value, own[i].value)) << own[i].name;
  }
  EXPECT_EQ(names_of(to_model_names(own, vit)), names_of(own)) << "timm's own";
}

TEST(HuggingFaceNames, OfAVitWithoutAHeadLeaveThePooler) {
  EXPECT_THAT(names_of(to_model_names(empty_tensors({"embeddings.cls_token", "pooler.dense.weight",
                                                     "layers.0.attention.q_proj.weight",
                                                     "layers.0.attention.k_proj.weight",
                                                     "layers.0.attention.v_proj.weight"}),
                                      small_vit())),
              ElementsAre("cls_token", "blocks.0.attn.qkv.weight"));
}

}  // namespace
}  // namespace trainer::models

// print, schema and reference: what is written about an experiment.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support.h"

namespace trainer::config::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

void expect_round_trip(const Experiment& experiment, const std::string& what) {
  const std::string text = print(experiment);
  const Loaded again = load_text(text, what);
  EXPECT_THAT(messages(again), IsEmpty()) << text;
  EXPECT_EQ(again.experiment, experiment) << text;
  EXPECT_EQ(print(again.experiment), text);
}

TEST(Print, LoadsBackForEveryCommittedFile) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("../configs")) {
    const Loaded loaded = load(entry.path(), {});
    ASSERT_THAT(messages(loaded), IsEmpty()) << entry.path();
    expect_round_trip(loaded.experiment, entry.path().string());
    ++files;
  }
  EXPECT_GE(files, 4U);
}

// One experiment of each kind, with what it requires.
TEST(Print, LoadsBackForEveryKind) {
  for (const char* model : {"mlp", "lenet", "resnet18", "resnet34", "resnet50", "resnet101"})
    expect_round_trip(sound(minimal(), {std::string("model.kind=") + model}), model);
  for (const char* source :
       {"{kind: digits}", "{kind: image_folder, path: a b}", "{kind: cifar10, path: \"x\\\"y\"}",
        "{kind: image_folder, path: a, channels: 1, background: [7], index: false}",
        "{kind: manifest, path: m.csv, root: \"null\", classes: [\"1\", a b], channels: 3}",
        "{kind: tar_shards, path: \"*.tar\", max_pixels: 1, exif_orientation: false}",
        "{kind: cifar100, path: yes}", "{kind: mnist, path: '1'}", "{kind: synthetic}"})
    expect_round_trip(sound(minimal(), {std::string("data.train=") + source}), source);
  for (const char* schedule :
       {"{kind: constant}", "{kind: linear}", "{kind: cosine}", "{kind: step}",
        "{kind: multistep, at: [1 epochs, 2.5 epochs]}", "{kind: one_cycle}",
        "{kind: wsd, decay: 2 epochs}", "{length: 1G samples, warmup: 0.1 epochs}"})
    expect_round_trip(sound(minimal(), {std::string("schedule=") + schedule}), schedule);
  for (const char* optim : {"sgd", "adam", "adamw"})
    expect_round_trip(sound(minimal(), {std::string("optim.kind=") + optim}), optim);
  for (const char* objective : {"cross_entropy", "mse"})
    expect_round_trip(sound(minimal(), {std::string("objective.kind=") + objective}), objective);
}

TEST(Print, LoadsBackForEveryKindOfTextAndTransformer) {
  const std::vector<std::string> text{"model={kind: gpt2}", "data.train={kind: tinyshakespeare}"};
  const auto with = [&](const std::string& setting) {
    std::vector<std::string> overrides = text;
    overrides.push_back(setting);
    expect_round_trip(sound(minimal(), overrides), setting);
  };
  for (const char* model :
       {"{kind: gpt2, intermediate: 10, vocabulary: 65, tied: false, freeze: [\"*.wte.*\"]}",
        "{kind: llama, kv_heads: 4, head_size: 32, qkv_bias: true, rope_scaling: yarn}",
        "{kind: llama, rope_scaling: {kind: llama3, factor: 8, original_context: 8192}}",
        "{kind: hf, path: a b, context: 2048, weights: {path: w, skip: [head.*]}}",
        "{kind: gpt2, lora: {rank: 4, alpha: 8, dropout: 0.1, targets: [\"*.c_attn\"]}}",
        "{kind: gpt2, lora: {}}"})
    with(std::string("model=") + model);
  for (const char* source :
       {"{kind: tokens, path: \"*.bin\"}", "{kind: tokens, path: t, tokenizer: tokenizer.json}",
        "{kind: text, path: t, document_separator: \"\\n\\n\", packing: documents, part: val}",
        "{kind: text, path: t, tokenizer: characters, cache: false, drop_partial: true}",
        "{kind: jsonl, path: t, chat: chatml, text_key: body, packing: none}",
        "{kind: jsonl, path: t, chat: {kind: custom, roles: [{role: assistant, suffix: \"\\n\"}]}}",
        "{kind: tinyshakespeare, tokenizer: bytes, val_share: 0.2, part: train}"})
    with(std::string("data.train=") + source);
  for (const char* policy :
       {"none", "blocks", "{every: 2}", "selective", "offload", "{offload: {min_size: 4KiB}}"})
    with(std::string("memory.activation_checkpointing=") + policy);
  with("objective={kind: language_modeling, label_smoothing: 0.1, z_loss: 1e-4}");
  with("optim.layer_decay=0.75");
  expect_round_trip(sound(minimal(), {"model={kind: vit, image: 8, patch: 4}"}), "vit");
}

TEST(Print, LoadsBackWithEveryTransformAndEveryOptionalSet) {
  const Experiment e = sound(R"(
device: cuda:3
model: {kind: mlp, hidden: [], weights: {path: "a'b: #$${X} \u00e9", strict: false, skip: ["fc.*"]}}
data:
  train:
    kind: synthetic
    transforms:
      - {resize: {size: 256, interpolation: bicubic}}
      - {center_crop: 230}
      - {random_crop: {size: 226, padding: 4}}
      - {random_resized_crop: 224}
      - {horizontal_flip: 0.3}
      - {color_jitter: {hue: 0.1}}
      - rand_augment
      - {trivial_augment: {bins: 5}}
      - {normalize: {mean: [0.1, 0.2, 0.3], std: [1, 2, 3]}}
      - {random_erasing: 0.25}
  val: {kind: synthetic}
  mix: {cutmix: 1, probability: 0.5}
  loader: {decode: cpu, on_bad_sample: skip, cache: {ram: {size: 3GB, holds: decoded}}}
optim: {kind: sgd, groups: [{match: "[ab]*", weight_decay: 1e-5}], clip_norm: 0.1, ema: 0.9999}
train: {length: 90s, stop_early: {min_delta: 1e-7}}
checkpoint: {best: {}}
)");
  expect_round_trip(e, "all");
}

TEST(Print, WritesSizesAndCaches) {
  EXPECT_THAT(print(sound(minimal())), HasSubstr("    cache: none\n"));
  const auto ram = [](const std::string& size) {
    return print(sound(minimal(), {"data.loader.cache.ram=" + size}));
  };
  EXPECT_THAT(ram("auto"),
              HasSubstr("    cache:\n      ram:\n        size: auto\n        holds: encoded\n"));
  EXPECT_THAT(ram("1.5GiB"), HasSubstr("        size: 1536MiB\n"));
  EXPECT_THAT(ram("1.5GB"), HasSubstr("        size: 1500000000\n"));
  for (const char* size : {"auto", "1", "1.5GiB", "1.5GB", "9223372036854775807"})
    expect_round_trip(sound(minimal(), {std::string("data.loader.cache.ram=") + size}), size);
}

TEST(Print, WritesTheListThatANameStandsFor) {
  const Experiment e = sound(minimal(), {"data.train={kind: image_folder, path: p, transforms: "
                                         "imagenet_eval}"});
  EXPECT_THAT(print(e), HasSubstr("      - {resize: {size: 256, interpolation: bilinear}}\n"
                                  "      - {center_crop: {size: 224}}\n"
                                  "      - {normalize: {mean: [0.485, 0.456, 0.406], std: "));
  expect_round_trip(e, "imagenet_eval");
}

TEST(Print, WritesEveryField) {
  const std::string text = print(sound(minimal()));
  for (const char* line : {"name: run\n", "seed: 1\n", "device: auto\n", "  kind: lenet\n",
                           "  weights: null\n", "  val: null\n", "  global: 64\n", "  mode: fp32\n",
                           "  kind: cross_entropy\n", "  kind: constant\n", "  length: 10 epochs\n",
                           "  allocator: expandable\n", "  keep: 3\n", "  tensorboard: true\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

TEST(Schema, DescribesEveryKindOnce) {
  const nlohmann::json schema = nlohmann::json::parse(config::schema());
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  const nlohmann::json& complete = schema["oneOf"][0];
  EXPECT_EQ(complete["additionalProperties"], false);
  EXPECT_EQ(complete["required"], (nlohmann::json{"model", "data", "optim"}));
  // Each kind, and a kind that comes from the environment.
  EXPECT_THAT(schema["$defs"]["model"]["oneOf"], SizeIs(11));
  EXPECT_EQ(schema["$defs"]["model"]["oneOf"][2]["properties"]["kind"]["const"], "resnet18");
}

// The committed page is what reference() gives. To renew it after a change of the fields:
//   UPDATE_REFERENCE=1 test_config --gtest_filter=Reference.*
TEST(Reference, IsTheCommittedPage) {
  const char* path = "../docs/reference/config.md";
  if (std::getenv("UPDATE_REFERENCE") != nullptr) std::ofstream(path) << reference();
  std::ifstream stream(path);
  const std::string committed{std::istreambuf_iterator<char>(stream), {}};
  EXPECT_EQ(committed, reference()) << "renew it: see the comment above this test";
}

TEST(Reference, ExplainsTheShortForms) {
  const std::string page = reference();
  EXPECT_THAT(page, HasSubstr("## `data.train`"));
  EXPECT_THAT(page, HasSubstr("As [`data.train`](#datatrain)."));
  EXPECT_THAT(page, HasSubstr("Short form: `{random_crop: VALUE}` sets `size`."));
  EXPECT_THAT(page, HasSubstr("- `imagenet_eval`: `[{resize: 256}, {center_crop: 224}"));
  EXPECT_THAT(page, HasSubstr("## `data.loader.cache`"));
  EXPECT_THAT(page, HasSubstr("| `size` | a size such as 512MiB, or auto | `auto` |"));
  EXPECT_THAT(page, HasSubstr("| `label_smoothing` | a number of at least 0 and below 1 | `0` |"));
}

}  // namespace
}  // namespace trainer::config::testing

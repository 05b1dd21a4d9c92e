// Reading a file: values, types, bounds, and the place and text of each problem.
#include "config/load.h"

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "support.h"

namespace trainer::config::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Load, GivesTheSettingsOfADesignedFile) {
  const Experiment e = sound(R"(
name: cifar10-resnet18
seed: 18446744073709551615
deterministic: true
device: cuda:1
model: {kind: resnet50, classes: 7, weights: a/b.safetensors, memory_format: channels_last}
data:
  train:
    kind: image_folder
    path: ./train
    transforms: [{random_resized_crop: 224}, horizontal_flip, normalize: imagenet]
  val: {kind: cifar100, path: c, split: test}
  loader: {workers: 0, prefetch: 2, drop_last: true}
  mix: {mixup: 0.2}
batch: {global: 256, micro: 100, evaluate: 11}
precision: {mode: bf16, tf32: false}
objective: {label_smoothing: 0.1}
optim: {kind: adamw, lr: 1e-3, weight_decay: .05, groups: [{match: "*.bias", weight_decay: 0}],
        clip_norm: 1.0, ema: 0.99, betas: [0.8, 0.95]}
schedule: {kind: cosine, warmup: 1K steps, final: 0.1, length: 20 epochs}
train: {length: 30 epochs, evaluate_every: null, on_nonfinite: skip}
checkpoint: {every: 10min, keep: 5}
log: {every: 2M samples, console: quiet}
)");
  EXPECT_EQ(e.name, "cifar10-resnet18");
  EXPECT_EQ(e.seed, 18446744073709551615U);
  EXPECT_TRUE(e.deterministic);
  EXPECT_EQ(e.device, (Device{DeviceKind::cuda, 1}));
  const auto& model = std::get<ResNet>(e.model);
  EXPECT_EQ(model.depth, 50);
  EXPECT_EQ(model.classes, 7);
  ASSERT_TRUE(model.weights);
  EXPECT_EQ(model.weights->path, "a/b.safetensors");
  EXPECT_TRUE(model.weights->strict);
  EXPECT_EQ(model.memory_format, MemoryFormat::channels_last);
  const auto& train = std::get<ImageFolder>(e.data.train);
  ASSERT_THAT(train.transforms, SizeIs(3));
  EXPECT_EQ(std::get<RandomResizedCrop>(train.transforms[0]).size, 224);
  EXPECT_EQ(std::get<HorizontalFlip>(train.transforms[1]).p, 0.5);
  EXPECT_THAT(std::get<Normalize>(train.transforms[2]).mean, ElementsAre(0.485, 0.456, 0.406));
  const auto& val = std::get<Cifar>(*e.data.val);
  EXPECT_EQ(val.classes, 100);
  EXPECT_EQ(val.split, Split::test);
  EXPECT_EQ(e.data.loader, (Loader{0, 2, true}));
  EXPECT_EQ(e.data.mix, (Mix{0.2, 0, 1}));
  EXPECT_EQ(e.batch, (Batch{256, 100, 3, 11}));
  EXPECT_EQ(e.precision.mode, PrecisionMode::bf16);
  EXPECT_EQ(std::get<CrossEntropy>(e.objective).label_smoothing, 0.1);
  const auto& adam = std::get<Adam>(e.optim);
  EXPECT_TRUE(adam.decoupled);
  EXPECT_EQ(adam.lr, 1e-3);
  EXPECT_EQ(adam.weight_decay, 0.05);
  EXPECT_THAT(adam.groups, ElementsAre(Group{"*.bias", 1, 0.0}));
  EXPECT_EQ(adam.ema, Ema{0.99});
  EXPECT_THAT(adam.betas, ElementsAre(0.8, 0.95));
  const auto& cosine = std::get<Cosine>(e.schedule);
  EXPECT_EQ(cosine.warmup, (Length{1000, Length::Unit::steps}));
  EXPECT_EQ(cosine.length, (Length{20, Length::Unit::epochs}));
  EXPECT_EQ(e.train.evaluate_every, std::nullopt);
  EXPECT_EQ(e.train.on_nonfinite, OnNonfinite::skip);
  EXPECT_EQ(e.checkpoint.every, (Length{600, Length::Unit::seconds}));
  EXPECT_EQ(e.log.every, (Length{2e6, Length::Unit::samples}));
}

TEST(Load, LeavesDefaultsAsTheStructsHaveThem) {
  Experiment expected;
  expected.model = LeNet{};
  expected.data.train = Digits{};
  expected.optim = Sgd{};
  expected.objective = CrossEntropy{};
  expected.schedule = Constant{};
  expected.batch = Batch{64, 64, 1, 64};
  EXPECT_EQ(sound(minimal()), expected);
}

TEST(Load, ReportsTwelveMistakesEachAtItsPlace) {
  EXPECT_THAT(
      problems_of(R"(name: my run
sed: 1
require_gpu: yes
model:
  kind: resnet19
data:
  train: {kind: image_folder, transforms: [{resize: 0}, horizontal_flp]}
batch: {micro: "8"}
optim:
  kind: adamw
  lr: 010
  lr: 0.1
  momentum: 0.9
train:
  length: 10
)"),
      ElementsAre(
          "e.yaml:1:7: name: expected a name of letters, digits, \"_\", \"-\" and \".\" that "
          "does not start with \".\", found \"my run\"",
          "e.yaml:2:1: sed: unknown key; did you mean \"seed\"?",
          "e.yaml:3:14: require_gpu: expected true or false, found \"yes\"; write true",
          "e.yaml:5:9: model.kind: expected one of mlp, lenet, resnet18, resnet34, "
          "resnet50, resnet101, vit, gpt2, llama, hf, found \"resnet19\"; did you mean "
          "\"resnet18\"?",
          "e.yaml:7:3: data.train.path: missing required key; expected text",
          "e.yaml:7:53: data.train.transforms.0.resize: expected an integer from 1 to "
          "16384, found 0",
          "e.yaml:7:57: data.train.transforms.1: unknown transform \"horizontal_flp\"; did "
          "you mean \"horizontal_flip\"?",
          "e.yaml:8:16: batch.micro: expected an integer from 1 to 1000000000 or auto, "
          "found the text \"8\"; remove the quotes",
          "e.yaml:11:7: optim.lr: expected a number above 0 and at most 1000, found 010; a "
          "leading zero means octal to some YAML readers, write the number without it",
          "e.yaml:12:3: optim.lr: duplicate key; the first is in line 11, keep one of them",
          "e.yaml:13:3: optim.momentum: unknown key for kind adamw; it belongs to kind sgd",
          "e.yaml:15:11: train.length: expected a length such as 500 steps, 2 epochs, 1M "
          "samples or 10min, found 10; add a unit: steps, epochs, samples, tokens, s, min, "
          "h or d"));
}

TEST(Load, NamesTheRequiredKeys) {
  EXPECT_THAT(problems_of("name: a\n"),
              ElementsAre(HasSubstr("e.yaml:1:1: model: missing required key"),
                          HasSubstr("e.yaml:1:1: data: missing required key"),
                          HasSubstr("e.yaml:1:1: optim: missing required key")));
  EXPECT_THAT(problems_of("model: {}\ndata: {val: null}\noptim: {knd: sgd}\n"),
              ElementsAre(HasSubstr("e.yaml:1:1: model.kind: missing required key; one of mlp"),
                          HasSubstr("e.yaml:2:1: data.train: missing required key"),
                          "e.yaml:3:9: optim.knd: unknown key; did you mean \"kind\"?"));
}

struct Mistake {
  std::string yaml;  // after three lines
  std::string message;
  friend void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.yaml; }
};
class OneMistake : public ::testing::TestWithParam<Mistake> {};

TEST_P(OneMistake, HasItsMessage) {
  EXPECT_THAT(problems_of(minimal(GetParam().yaml)), ElementsAre(HasSubstr(GetParam().message)));
}

INSTANTIATE_TEST_SUITE_P(
    Load, OneMistake,
    ::testing::Values(
        Mistake{"seed: -1", "e.yaml:4:7: seed: expected an integer from 0 to 18446744073709551615"},
        Mistake{"seed: 18446744073709551616", "found 18446744073709551616"},
        Mistake{"seed: 1_000", "write the digits without separators"},
        Mistake{"seed: 1.0", "found 1.0; write 1"}, Mistake{"seed: .inf", "found .inf"},
        Mistake{"seed: null", "found nothing (null)"}, Mistake{"seed: [1]", "found a list"},
        Mistake{"seed: 1K", "K, M and G are for lengths only"},
        Mistake{"deterministic: off", "write false"},
        Mistake{"deterministic: \"true\"", "found the text \"true\"; remove the quotes"},
        Mistake{"deterministic: tRue", "write it in small letters"},
        Mistake{"name: 12", "found 12; text that looks like something else needs quotes"},
        Mistake{"name: ../up", "found \"../up\""}, Mistake{"name: ''", "found \"\""},
        Mistake{"device: cuda:100", "expected auto, cpu, cuda or cuda:N"},
        Mistake{"device: cpuu", "did you mean \"cpu\"?"},
        Mistake{"train: {length: 5 stps}", "unknown unit \"stps\"; did you mean \"steps\"?"},
        Mistake{"train: {length: 5 minutes}", "did you mean \"min\"?"},
        Mistake{"train: {length: 5 parsecs}", "unknown unit \"parsecs\"; units are steps"},
        Mistake{"train: {length: 1.5 steps}", "a number of steps is whole"},
        Mistake{"train: {length: 0 steps}", "it has to be more than 0"},
        Mistake{"train: {length: 1M s}", "not with a time"},
        Mistake{"train: {length: epochs}", "a length starts with a number"},
        Mistake{"train: {length: 99999999999999999999 steps}", "too large"},
        Mistake{"schedule: {kind: cosine, warmup: 5min}", "a time does not fix the learning rate"},
        Mistake{"schedule: cosine", "e.yaml:4:11: schedule: expected a map with a kind"},
        Mistake{"schedule: {kind: one_cycle, warmup: 5 steps}",
                "schedule.warmup: unknown key for kind one_cycle; it belongs to kind constant"},
        Mistake{"schedule: {kind: multistep, at: []}", "found 0 items"},
        Mistake{"log:\n", "log: expected a map with the keys every, console"},
        Mistake{"precision: {mode: 16}", "expected one of fp32, bf16, fp16, found 16"},
        Mistake{"checkpoint: {best: {metric: accuracy}}", "did you mean \"val/accuracy\"?"},
        Mistake{"data: {train: {kind: digits}}", "e.yaml:4:1: data: duplicate key"},
        Mistake{"<<: {seed: 1}", "merge keys are not part of YAML 1.2"},
        Mistake{"? [a]\n: 1", "a key is a word, found a list"},
        Mistake{"seed: !!int 3", "tags are not supported"},
        Mistake{"---\nseed: 2", "a second document starts here"},
        Mistake{"--- # nothing\n", "a second document starts here"},
        Mistake{"\xC3\xA9\xC3\xA9: {a: b, seed: 1}", "e.yaml:4:1: \xC3\xA9\xC3\xA9: unknown key"}));

TEST(Load, CountsColumnsInCharacters) {
  EXPECT_THAT(
      problems_of(minimal("log: {jsonl: true, csv: \"\xC3\xA9\xC3\xA9\", tensorbord: 1}")),
      ElementsAre(HasSubstr("e.yaml:4:25: log.csv"), HasSubstr("e.yaml:4:31: log.tensorbord")));
}

TEST(Load, ExplainsTransformsThatAreNone) {
  const auto with = [](const std::string& transforms) {
    return problems_of(
        "model: {kind: lenet}\noptim: {kind: sgd}\ndata: {train: {kind: digits, "
        "transforms: " +
        transforms + "}}\n");
  };
  EXPECT_THAT(with("[resize]"),
              ElementsAre(HasSubstr("transforms.0.resize.size: missing required key; expected an "
                                    "integer from 1")));
  EXPECT_THAT(with("[{random_crop: 8, padding: 2}]"),
              ElementsAre(HasSubstr("settings go inside: {random_crop: {...}}")));
  EXPECT_THAT(with("[normalize: imagnet]"), ElementsAre(HasSubstr("did you mean \"imagenet\"?")));
  EXPECT_THAT(with("[normalize: {mean: [0.5], std: [0]}]"),
              ElementsAre(HasSubstr("normalize.std.0: expected a number above 0")));
  EXPECT_THAT(with("horizontal_flip"), ElementsAre(HasSubstr("a list is written [a, b]")));
  EXPECT_THAT(with("[{horizontal_flip: }, {horizontal_flip: 0.1}]"), IsEmpty());
}

std::string with_data(const std::string& data) {
  return "model: {kind: lenet}\noptim: {kind: sgd}\ndata: {" + data + "}\n";
}
std::string with_transforms(const std::string& transforms) {
  return with_data("train: {kind: digits, transforms: " + transforms + "}");
}
Cache cache_of(const std::string& cache) {
  return sound(with_data("train: {kind: digits}, loader: {cache: " + cache + "}"))
      .data.loader.cache;
}
std::vector<std::string> cache_problems(const std::string& cache) {
  return problems_of(with_data("train: {kind: digits}, loader: {cache: " + cache + "}"));
}

TEST(Load, ReadsTheSourcesOfImageFiles) {
  const Experiment e = sound(R"(
model: {kind: lenet}
optim: {kind: sgd}
data:
  train:
    kind: manifest
    path: train.csv
    root: ${PICTURES:-pictures}
    classes: [cat, dog]
    channels: 1
    background: [255]
    max_pixels: 2147483648
    exif_orientation: false
  val: {kind: tar_shards, path: "val-*.tar", classes: ["0", "1"], channels: 1, index: false}
  loader: {decode: cpu, on_bad_sample: replace, max_bad_share: 0.5, cache: ram}
)");
  Manifest manifest;
  manifest.path = "train.csv";
  manifest.root = "pictures";
  manifest.classes = {"cat", "dog"};
  manifest.channels = 1;
  manifest.background = {255};
  manifest.max_pixels = 2'147'483'648;
  manifest.exif_orientation = false;
  EXPECT_EQ(std::get<Manifest>(e.data.train), manifest);
  TarShards shards;
  shards.path = "val-*.tar";
  shards.classes = {"0", "1"};
  shards.channels = 1;
  shards.index = false;
  EXPECT_EQ(std::get<TarShards>(*e.data.val), shards);
  EXPECT_EQ(e.data.loader.decode, Decode::cpu);
  EXPECT_EQ(e.data.loader.on_bad_sample, BadSample::replace);
  EXPECT_EQ(e.data.loader.max_bad_share, 0.5);
  EXPECT_EQ(e.data.loader.cache, (Cache{RamCache{}}));
  const Experiment folder = sound(with_data("train: {kind: image_folder, path: p, index: false}"));
  EXPECT_FALSE(std::get<ImageFolder>(folder.data.train).index);
  EXPECT_EQ(std::get<ImageFolder>(folder.data.train).channels, std::nullopt);
}

TEST(Load, ReadsEveryFormOfACache) {
  EXPECT_EQ(cache_of("none"), Cache{NoCache{}});
  EXPECT_EQ(cache_of("{none: }"), Cache{NoCache{}});
  EXPECT_EQ(cache_of("ram"), (Cache{RamCache{}}));
  EXPECT_EQ(cache_of("{ram: auto}"), (Cache{RamCache{}}));
  EXPECT_EQ(cache_of("{ram: 8GiB}"), (Cache{RamCache{8'589'934'592, CacheHolds::encoded}}));
  EXPECT_EQ(cache_of("{ram: 4096}"), (Cache{RamCache{4096, CacheHolds::encoded}}));
  EXPECT_EQ(cache_of("{ram: {size: 1.5GB, holds: decoded}}"),
            (Cache{RamCache{1'500'000'000, CacheHolds::decoded}}));
  EXPECT_EQ(sound(minimal(), {"data.loader.cache.ram.size=1MiB"}).data.loader.cache,
            (Cache{RamCache{1'048'576, CacheHolds::encoded}}));
}

TEST(Load, ExplainsCachesThatAreNone) {
  EXPECT_THAT(cache_problems("rom"),
              ElementsAre("e.yaml:3:47: data.loader.cache: unknown cache \"rom\"; did you mean "
                          "\"ram\"?"));
  EXPECT_THAT(cache_problems("8GiB"), ElementsAre(HasSubstr("unknown cache \"8GiB\"; one of none, "
                                                            "ram")));
  EXPECT_THAT(cache_problems("{ram: 8GiB, holds: decoded}"),
              ElementsAre(HasSubstr("settings go inside: {ram: {...}}")));
  EXPECT_THAT(cache_problems("{ram: 0}"),
              ElementsAre("e.yaml:3:53: data.loader.cache.ram: expected a size such as 512MiB or "
                          "auto, found 0; it has to be more than 0"));
  EXPECT_THAT(cache_problems("{ram: {size: 8G, holds: pixels}}"),
              ElementsAre("e.yaml:3:60: data.loader.cache.ram.size: expected a size such as 512MiB "
                          "or auto, found \"8G\"; unknown unit \"G\"; did you mean \"GiB\"?",
                          HasSubstr("e.yaml:3:71: data.loader.cache.ram.holds: expected one of "
                                    "encoded, decoded, found \"pixels\"")));
  EXPECT_THAT(cache_problems("{ram: \"512\"}"),
              ElementsAre(HasSubstr("found the text \"512\"; remove the quotes")));
  EXPECT_THAT(cache_problems("{ram: 8388608TiB}"),
              ElementsAre(HasSubstr("found \"8388608TiB\"; the size is too large")));
  EXPECT_THAT(cache_problems("{ram: [1]}"), ElementsAre(HasSubstr("found a list")));
}

TEST(Load, ReadsTheNamesOfUsualTransforms) {
  const Normalize imagenet{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};
  const Experiment e = sound(
      with_data("train: {kind: image_folder, path: p, transforms: imagenet_train}, "
                "val: {kind: image_folder, path: p, transforms: \"${RECIPE:-imagenet_eval}\"}"));
  RandomResizedCrop crop;
  crop.size = 224;
  EXPECT_THAT(std::get<ImageFolder>(e.data.train).transforms,
              ElementsAre(Transform{crop}, Transform{HorizontalFlip{}}, Transform{imagenet}));
  EXPECT_THAT(std::get<ImageFolder>(*e.data.val).transforms,
              ElementsAre(Transform{Resize{256, Interpolation::bilinear}},
                          Transform{CenterCrop{224}}, Transform{imagenet}));
}

TEST(Load, ExplainsNamesOfTransformsThatAreNone) {
  EXPECT_THAT(
      problems_of(with_transforms("imagenet_trian")),
      ElementsAre("e.yaml:3:42: data.train.transforms: expected one of imagenet_train, "
                  "imagenet_eval, or a list of items, each the name of a transform, or {name: "
                  "settings}, found \"imagenet_trian\"; did you mean \"imagenet_train\"?"));
  EXPECT_THAT(problems_of(with_transforms("[imagenet_train]")),
              ElementsAre("e.yaml:3:43: data.train.transforms.0: \"imagenet_train\" stands for a "
                          "whole list; write it alone, without [ ] or -"));
}

TEST(Load, ReadsTheAugmentationsWithTheirDefaults) {
  const Experiment e =
      sound(with_transforms("[rand_augment, {rand_augment: {ops: 16, magnitude: 30, bins: 256}}, "
                            "trivial_augment, {trivial_augment: {bins: 2}}]"));
  EXPECT_THAT(std::get<Digits>(e.data.train).transforms,
              ElementsAre(Transform{RandAugment{2, 9, 31}}, Transform{RandAugment{16, 30, 256}},
                          Transform{TrivialAugment{31}}, Transform{TrivialAugment{2}}));
}

TEST(Load, ChecksTheBoundsOfTheDataFields) {
  EXPECT_THAT(
      problems_of(with_transforms("[{rand_augment: {ops: 17, magnitude: 31, bins: 1}}]")),
      ElementsAre(
          "e.yaml:3:64: data.train.transforms.0.rand_augment.ops: expected an integer from 1 to "
          "16, found 17",
          HasSubstr("e.yaml:3:79: data.train.transforms.0.rand_augment.magnitude: expected an "
                    "integer from 0 to 30"),
          HasSubstr("e.yaml:3:89: data.train.transforms.0.rand_augment.bins: expected an integer "
                    "from 2 to 256")));
  EXPECT_THAT(problems_of(with_transforms("[{rand_augment: 9}]")),
              ElementsAre(HasSubstr("expected a map with the keys ops, magnitude, bins, found 9")));
  EXPECT_THAT(
      problems_of(with_data("train: {kind: image_folder, path: p, channels: 2, background: [256], "
                            "max_pixels: 0, exif_orientation: yes}")),
      ElementsAre(
          "e.yaml:3:55: data.train.channels: expected one of 1, 3 or auto, found 2",
          HasSubstr("e.yaml:3:71: data.train.background.0: expected an integer from 0 to 255"),
          HasSubstr("e.yaml:3:89: data.train.max_pixels: expected an integer from 1 to 2147483648"),
          HasSubstr("e.yaml:3:110: data.train.exif_orientation: expected true or false, found "
                    "\"yes\"; write true")));
  EXPECT_THAT(problems_of(with_data("train: {kind: digits, channels: \"3\"}")),
              ElementsAre(HasSubstr("found the text \"3\"; remove the quotes")));
  EXPECT_THAT(problems_of(with_data("train: {kind: digits}, loader: {decode: cuda, on_bad_sample: "
                                    "ignore, max_bad_share: 2}")),
              ElementsAre(HasSubstr("e.yaml:3:48: data.loader.decode: expected one of auto, cpu, "
                                    "gpu, found \"cuda\""),
                          HasSubstr("e.yaml:3:69: data.loader.on_bad_sample: expected one of fail, "
                                    "skip, replace, found \"ignore\""),
                          HasSubstr("e.yaml:3:92: data.loader.max_bad_share: expected a number "
                                    "from 0 to 1, found 2")));
  EXPECT_THAT(problems_of(with_data("train: {kind: manifest}, val: {kind: digits, index: true}")),
              ElementsAre(HasSubstr("e.yaml:3:8: data.train.path: missing required key"),
                          HasSubstr("data.val.index: unknown key for kind digits; it belongs to "
                                    "kind image_folder, tar_shards")));
}

TEST(Load, RefusesWhatIsNoYaml) {
  EXPECT_THAT(problems_of("a: [1, 2\nb: 3\n"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(problems_of("name: a\nmodel:\n\tkind: mlp\n"),
              ElementsAre(HasSubstr("indented with a tab, use spaces")));
  EXPECT_THAT(problems_of("name: {a: ${X}}\n"), ElementsAre(HasSubstr("needs quotes")));
  EXPECT_THAT(problems_of("name: \xFF\n"), ElementsAre("e.yaml:1:7: not UTF-8; save the file in "
                                                       "UTF-8"));
  EXPECT_THAT(problems_of(std::string("a: 1\nname: \x04", 13)),
              ElementsAre(HasSubstr("e.yaml:2:7: control character \"\\x04\"")));
  EXPECT_THAT(problems_of(""), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(problems_of("# only a comment\n"), ElementsAre(HasSubstr("the file is empty")));
  EXPECT_THAT(problems_of("- a\n"), ElementsAre(HasSubstr("is a map of keys, found a list")));
  EXPECT_THAT(problems_of("name: *nowhere\n"), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(problems_of("name: &a [*a]\n"), ElementsAre(HasSubstr("inside its own anchor")));
}

TEST(Load, SurvivesLargeAndDeepText) {
  EXPECT_THAT(problems_of(std::string(2 << 20, '#')), ElementsAre(HasSubstr("larger than 1 MiB")));
  EXPECT_THAT(problems_of(std::string(100'000, '[')), ElementsAre(HasSubstr("64 levels")));
  std::string deep;
  for (int i = 0; i < 200; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_THAT(problems_of(deep), ElementsAre(HasSubstr("64 levels")));
  std::string laughs = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    laughs += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) laughs += (j > 0 ? ", " : "") + before;
    laughs += "]\n";
  }
  EXPECT_THAT(problems_of(laughs), ElementsAre(HasSubstr("more than 100000 values")));
}

TEST(Load, FollowsAnchors) {
  const Experiment e = sound(
      "model: {kind: mlp}\noptim: {kind: sgd}\ndata:\n  train: &digits {kind: digits}\n"
      "  val: *digits\n");
  EXPECT_EQ(std::get<Digits>(*e.data.val), Digits{});
}

TEST(Load, TakesAByteOrderMark) {
  EXPECT_EQ(sound("\xEF\xBB\xBF" + minimal("seed: 5")).seed, 5U);
  EXPECT_THAT(problems_of("\xEF\xBB\xBFsed: 1\n" + minimal()),
              ElementsAre(HasSubstr("e.yaml:1:1: sed")));
}

TEST(Load, ThrowsEveryProblemAndACount) {
  try {
    load_or_throw("config/data/two_mistakes.yaml", {});
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    EXPECT_STREQ(error.what(),
                 "config/data/two_mistakes.yaml:4:1: sed: unknown key; did you mean \"seed\"?\n"
                 "config/data/two_mistakes.yaml:5:9: device: expected auto, cpu, cuda or cuda:N, "
                 "found \"cpuu\"; did you mean \"cpu\"?\n"
                 "config/data/two_mistakes.yaml: 2 errors");
  }
  try {
    load_or_throw("config/data/none.yaml", {});
    FAIL() << "no exception";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "config/data/none.yaml: no such file\nconfig/data/none.yaml: 1 error");
  }
  EXPECT_THAT(messages(load("config", {})), ElementsAre(HasSubstr("is a folder")));
}

}  // namespace
}  // namespace trainer::config::testing

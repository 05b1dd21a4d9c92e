// The rules between fields, and the batch arithmetic.
#include <string>

#include "support.h"

namespace trainer::config::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Batch batch(const std::string& settings) {
  return sound(minimal("batch: {" + settings + "}")).batch;
}

TEST(BatchRule, DerivesTheThirdFromTwo) {
  EXPECT_EQ(batch(""), (Batch{64, 64, 1, 64}));
  EXPECT_EQ(batch("global: 64, micro: 24"), (Batch{64, 24, 3, 24}));
  EXPECT_EQ(batch("global: 64, accumulate: 4"), (Batch{64, 16, 4, 16}));
  EXPECT_EQ(batch("micro: 8, accumulate: 3"), (Batch{24, 8, 3, 8}));
  EXPECT_EQ(batch("global: 10"), (Batch{10, 10, 1, 10}));
  EXPECT_EQ(batch("micro: 10"), (Batch{10, 10, 1, 10}));
  EXPECT_EQ(batch("accumulate: 3"), (Batch{64, 22, 3, 22}));
  EXPECT_EQ(batch("accumulate: 100"), (Batch{100, 1, 100, 1}));
  EXPECT_EQ(batch("global: 64, micro: 24, accumulate: 3, evaluate: 7"), (Batch{64, 24, 3, 7}));
}

// Found by fuzzing: what could not be read was divided by.
TEST(BatchRule, WhatCannotBeReadIsReportedOnce) {
  EXPECT_THAT(problems_of(minimal("batch: {global: 64, accumulate: many}")),
              ElementsAre(HasSubstr("batch.accumulate: expected")));
  EXPECT_THAT(problems_of(minimal("batch: {global: 010, micro: few, accumulate: 0}")),
              ElementsAre(HasSubstr("batch.global: "), HasSubstr("batch.micro: "),
                          HasSubstr("batch.accumulate: ")));
}

TEST(BatchRule, RefusesWhatDoesNotFit) {
  EXPECT_THAT(problems_of(minimal("batch: {global: 64, micro: 24, accumulate: 2}")),
              ElementsAre("e.yaml:4:44: batch.accumulate: global 64 cut into micro-batches of 24 "
                          "makes 3, not 2; leave one of the three out"));
  EXPECT_THAT(problems_of(minimal("batch: {global: 10, accumulate: 6}")),
              ElementsAre(HasSubstr("e.yaml:4:33: batch.accumulate: global 10 cut into")));
  EXPECT_THAT(problems_of(minimal("batch: {global: 8, micro: 24}")),
              ElementsAre(HasSubstr("a micro-batch of 24 is larger than the global batch of 8")));
  EXPECT_THAT(problems_of(minimal("batch: {global: 2, accumulate: 4}")),
              ElementsAre(HasSubstr("batch.accumulate: global 2 cut into")));
}

struct Broken {
  std::string yaml;
  std::string message;
  friend void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.yaml; }
};
class Rule : public ::testing::TestWithParam<Broken> {};

TEST_P(Rule, IsReportedAtTheFieldToChange) {
  EXPECT_THAT(problems_of(GetParam().yaml), ElementsAre(HasSubstr(GetParam().message)))
      << GetParam().yaml;
}

std::string digits(const std::string& train, const std::string& more = {}) {
  return "model: {kind: lenet}\noptim: {kind: sgd}\ndata:\n  train: {kind: digits" + train + "}\n" +
         more;
}

std::string with_optim(const std::string& optim) {
  return "model: {kind: lenet}\ndata: {train: {kind: digits}}\noptim: {" + optim + "}\n";
}

INSTANTIATE_TEST_SUITE_P(
    Device, Rule,
    ::testing::Values(Broken{minimal("device: cpu\nprecision: {mode: fp16}"),
                             "e.yaml:5:19: precision.mode: fp16 needs a GPU"},
                      Broken{minimal("require_gpu: true\ndevice: cpu"),
                             "e.yaml:4:14: require_gpu: contradicts device: cpu"},
                      Broken{with_optim("kind: sgd, nesterov: true"),
                             "e.yaml:3:30: optim.nesterov: needs momentum above 0"},
                      Broken{with_optim("kind: sgd, groups: [{match: a}, {match: b}, {match: a}]"),
                             "optim.groups.2.match: an earlier group has the same pattern"}));

INSTANTIATE_TEST_SUITE_P(
    Data, Rule,
    ::testing::Values(
        Broken{digits(", transforms: [random_erasing]"),
               "e.yaml:4:38: data.train.transforms.0: random_erasing comes after normalize"},
        Broken{digits(", transforms: [normalize: digits, normalize: digits]"),
               "transforms.1: a second normalize; keep one"},
        Broken{digits(", transforms: [normalize: digits, random_erasing, random_erasing]"),
               "transforms.2: a second random_erasing"},
        Broken{digits(", transforms: [normalize: digits, horizontal_flip]"),
               "transforms.1: comes before normalize"},
        Broken{digits(", transforms: [normalize: cifar10]"),
               "transforms.0.normalize: has numbers for 3 channels, and the images have 1"},
        Broken{digits(", transforms: [normalize: {mean: [0, 0], std: [1, 1, 1]}]"),
               "normalize: mean has 2 numbers and std 3"},
        Broken{digits(", transforms: [random_resized_crop: {size: 8, scale: [0.5, 0.1]}]"),
               "random_resized_crop.scale: the first of the two is the smaller one, found [0.5, "
               "0.1]"},
        Broken{digits(", transforms: [normalize: digits, random_erasing: {ratio: [3, 0.3]}]"),
               "random_erasing.ratio: the first of the two is the smaller one"},
        Broken{digits("", "  val: {kind: digits, transforms: [random_erasing]}\n"),
               "e.yaml:5:36: data.val.transforms.0: random_erasing comes after normalize"},
        Broken{digits("", "  val: {kind: cifar10, path: c}\n"),
               "data.val: has images of 3 channels, and data.train of 1"},
        Broken{digits("", "  val: {kind: synthetic, shape: [1, 8, 8], classes: 9}\n"),
               "data.val: has 9 classes, and data.train 10"},
        Broken{digits("", "  loader: {drop_last: true}\nbatch: {global: 1438}\n"),
               "data.loader.drop_last: leaves no batch at all: data.train has 1437 samples"},
        Broken{digits("", "  mix: {mixup: 0.2}\nobjective: {kind: mse}\n"),
               "data.mix: blended labels need objective.kind: cross_entropy"},
        Broken{digits("", "  mix: {}\n"), "data.mix: neither mixup nor cutmix is above 0"},
        Broken{
            "model: {kind: mlp, classes: 100}\noptim: {kind: sgd}\n"
            "data: {train: {kind: cifar10, path: c}}\n",
            "e.yaml:1:29: model.classes: data.train has 10 classes, found 100; set it to auto"}));

std::string folder(const std::string& train, const std::string& more = {}) {
  return "model: {kind: lenet}\noptim: {kind: sgd}\ndata:\n  train: {kind: image_folder, path: p" +
         train + "}\n" + more;
}

INSTANTIATE_TEST_SUITE_P(
    Images, Rule,
    ::testing::Values(
        Broken{digits(", transforms: [rand_augment: {magnitude: 10, bins: 10}]"),
               "e.yaml:4:64: data.train.transforms.0.rand_augment.magnitude: has to be below bins "
               "(10), found 10"},
        Broken{digits(", transforms: [rand_augment: {bins: 5}]"),
               "e.yaml:4:38: data.train.transforms.0.rand_augment.magnitude: has to be below bins "
               "(5), found 9"},
        Broken{digits(", transforms: [normalize: digits, trivial_augment]"),
               "data.train.transforms.1: comes before normalize"},
        Broken{digits(", channels: 3, transforms: [normalize: {mean: [0, 0], std: [1]}]"),
               "transforms.0.normalize: has numbers for 2 channels, and the images have 3"},
        Broken{folder(", transforms: [normalize: {mean: [0, 0], std: [1, 1]}]"),
               "transforms.0.normalize: has numbers for 2 channels, and the images have 3"},
        Broken{
            folder(", channels: 1, transforms: imagenet_train"),
            "e.yaml:4:65: data.train.transforms.2.normalize: has numbers for 3 channels, and the "
            "images have 1"},
        Broken{folder(", background: [1, 2]"),
               "e.yaml:4:40: data.train.background: has 2 numbers, and the images have 3 channels; "
               "give one for each channel, or one for all"},
        Broken{folder(", channels: 1, background: [1, 2, 3]"),
               "data.train.background: has 3 numbers, and the images have 1 channel; give one"},
        Broken{folder("", "  val: {kind: tar_shards, path: t, background: [1, 2]}\n"),
               "e.yaml:5:36: data.val.background: has 2 numbers"},
        Broken{folder("", "  val: {kind: manifest, path: m, classes: [a, b, a]}\n"),
               "e.yaml:5:50: data.val.classes.2: a second class \"a\"; each name stands for one"},
        Broken{folder("", "  val: {kind: tar_shards, path: t, classes: [a, a]}\n"),
               "data.val.classes.1: a second class \"a\""},
        Broken{"model: {kind: mlp}\noptim: {kind: sgd}\n"
               "data: {train: {kind: synthetic, shape: [5, 8, 8], channels: 3}}\n",
               "e.yaml:3:61: data.train.channels: images of 5 channels can't be converted; set it "
               "to auto"},
        Broken{folder("", "  val: {kind: manifest, path: m, channels: 1}\n"),
               "e.yaml:5:3: data.val: has images of 1 channels, and data.train of 3; both need the "
               "same, as with channels: 1 or channels: 3 in both"},
        Broken{digits(", channels: 3", "  val: {kind: digits}\n"),
               "data.val: has images of 1 channels, and data.train of 3"},
        Broken{"model: {kind: lenet, classes: 3}\noptim: {kind: sgd}\n"
               "data: {train: {kind: manifest, path: m, classes: [a, b]}}\n",
               "e.yaml:1:31: model.classes: data.train has 2 classes, found 3"},
        Broken{"model: {kind: lenet}\noptim: {kind: sgd}\ndata:\n"
               "  train: {kind: tar_shards, path: t, classes: [a, b]}\n"
               "  val: {kind: manifest, path: m, classes: [a, b, c]}\n",
               "data.val: has 3 classes, and data.train 2"}));

INSTANTIATE_TEST_SUITE_P(
    Decode, Rule,
    ::testing::Values(
        Broken{folder(", transforms: [horizontal_flip, rand_augment]", "  loader: {decode: gpu}\n"),
               "e.yaml:5:20: data.loader.decode: the GPU can't do rand_augment "
               "(data.train.transforms.1); use decode: auto or cpu, or leave that transform out"},
        Broken{folder("",
                      "  val: {kind: image_folder, path: p, transforms: [trivial_augment]}\n"
                      "  loader: {decode: gpu}\n"),
               "e.yaml:6:20: data.loader.decode: the GPU can't do trivial_augment "
               "(data.val.transforms.0)"},
        Broken{folder(", transforms: [rand_augment]", "  loader: {decode: gpu}\ndevice: cpu\n"),
               "e.yaml:5:20: data.loader.decode: gpu needs a GPU, and device is cpu; use decode: "
               "auto or cpu"}));

INSTANTIATE_TEST_SUITE_P(
    Schedules, Rule,
    ::testing::Values(
        Broken{
            minimal("train: {length: 1M tokens}"),
            "e.yaml:4:17: train.length: images have no tokens; give the length in steps, epochs or "
            "samples"},
        Broken{minimal("schedule: {warmup: 1 tokens}"), "schedule.warmup: images have no tokens"},
        Broken{minimal("train: {length: 2h}\nschedule: {kind: cosine}"),
               "e.yaml:5:1: schedule.length: this schedule needs to know its end in steps"},
        Broken{minimal("train: {length: 5 epochs}\nschedule: {warmup: 5 epochs}"),
               "e.yaml:5:20: schedule.warmup: the warm-up has to be shorter than train.length (5 "
               "epochs)"},
        Broken{minimal("schedule: {kind: linear, warmup: 9 steps, length: 8 steps}"),
               "the warm-up has to be shorter than schedule.length (8 steps)"},
        Broken{
            minimal("schedule: {kind: wsd, warmup: 4 epochs, decay: 7 epochs}"),
            "schedule.decay: warm-up and decay together are longer than train.length (10 epochs)"},
        Broken{minimal("schedule: {kind: multistep, at: [3 epochs, 2 epochs]}"),
               "schedule.at.1: comes after 3 epochs, so it has to be more than that"},
        Broken{minimal("schedule: {kind: multistep, at: [3 epochs, 200 steps]}"),
               "schedule.at.1: has another unit than 3 epochs"}));

INSTANTIATE_TEST_SUITE_P(
    Metrics, Rule,
    ::testing::Values(
        Broken{minimal("train: {stop_early: {}}"), "train.stop_early: needs data.val"},
        Broken{minimal("checkpoint: {best: {}}"), "checkpoint.best: needs data.val"},
        Broken{digits("", "  val: {kind: digits}\ntrain: {stop_early: {}, evaluate_every: null}\n"),
               "train.stop_early: needs train.evaluate_every"},
        Broken{digits("", "  val: {kind: digits}\ncheckpoint: {best: {metric: val/loss}}\n"),
               "checkpoint.best.mode: val/loss is better when it is lower; set mode: min"},
        Broken{digits("", "  val: {kind: digits}\ntrain: {stop_early: {metric: val/accuracy}}\n"),
               "train.stop_early.mode: val/accuracy is better when it is higher; set mode: max"},
        Broken{"model: {kind: mlp}\noptim: {kind: sgd}\ndata:\n"
               "  train: {kind: synthetic, classes: 5}\n  val: {kind: synthetic, classes: 5}\n"
               "checkpoint: {best: {metric: val/accuracy_top5}}\n",
               "checkpoint.best.metric: among 5 classes the right one is always in the top 5"}));

std::string text(const std::string& data, const std::string& model = "kind: gpt2",
                 const std::string& more = {}) {
  return "model: {" + model + "}\noptim: {kind: sgd}\ndata:\n  train: {" + data + "}\n" + more;
}

INSTANTIATE_TEST_SUITE_P(
    Text, Rule,
    ::testing::Values(
        Broken{text("kind: tinyshakespeare, length: 65", "kind: gpt2, context: 64"),
               "e.yaml:4:42: data.train.length: sequences of 65 tokens are longer than the model's "
               "context of 64"},
        Broken{text("kind: text, path: t", "kind: llama, context: 64"),
               "data.train.length: sequences of 1024 tokens are longer"},
        Broken{text("kind: tinyshakespeare, length: 64", "kind: gpt2, context: 64",
                    "  val: {kind: tokens, path: t, length: 65}\n"),
               "e.yaml:5:40: data.val.length: sequences of 65 tokens"},
        Broken{text("kind: tinyshakespeare", "kind: lenet"),
               "e.yaml:4:17: data.train.kind: gives text, and the model reads images; use a "
               "language model, such as kind: gpt2"},
        Broken{text("kind: digits"),
               "e.yaml:4:17: data.train.kind: gives images, and the model reads text; use a source "
               "of text, such as kind: text"},
        Broken{text("kind: tinyshakespeare", "kind: gpt2", "  val: {kind: digits}\n"),
               "e.yaml:5:15: data.val.kind: data.train and data.val must both give text, or both "
               "images"},
        Broken{text("kind: tinyshakespeare", "kind: gpt2", "objective: {kind: mse}\n"),
               "e.yaml:5:19: objective.kind: text is learnt by language_modeling"},
        Broken{minimal("objective: {kind: language_modeling}"),
               "objective.kind: language_modeling needs data of text"},
        Broken{text("kind: tinyshakespeare", "kind: gpt2",
                    "  val: {kind: tinyshakespeare}\ncheckpoint: {best: {metric: "
                    "val/accuracy_top5}}\n"),
               "checkpoint.best.metric: val/accuracy_top5 is not measured on text"},
        Broken{digits("",
                      "  val: {kind: digits}\ncheckpoint: {best: {metric: val/perplexity, mode: "
                      "min}}\n"),
               "checkpoint.best.metric: val/perplexity is not measured on images"},
        Broken{"model: {kind: vit, image: 30, patch: 8}\noptim: {kind: sgd}\n"
               "data: {train: {kind: digits}}\n",
               "e.yaml:1:38: model.patch: patches of 8 pixels do not divide images of 30"},
        Broken{"model: {kind: vit, width: 30, heads: 4}\noptim: {kind: sgd}\n"
               "data: {train: {kind: digits}}\n",
               "e.yaml:1:38: model.heads: 4 heads do not divide the width of 30"}));

TEST(Rules, AcceptTextThatFits) {
  for (const std::string& yaml :
       {text("kind: tinyshakespeare, length: 64", "kind: gpt2, context: 64"),
        text("kind: text, path: t", "kind: llama", "train: {length: 300M tokens}\n"),
        text("kind: jsonl, path: t, length: 2048", "kind: hf, path: folder"),
        text("kind: tokens, path: t", "kind: gpt2",
             "  val: {kind: tinyshakespeare}\n"
             "checkpoint: {best: {metric: val/perplexity, mode: min}}\n")})
    EXPECT_THAT(problems_of(yaml), IsEmpty()) << yaml;
  // What text is learnt by needs no word.
  const Experiment learnt =
      sound(text("kind: tinyshakespeare", "kind: gpt2", "objective: {label_smoothing: 0.1}\n"));
  EXPECT_EQ(learnt.objective, Objective(LanguageModeling{0.1, 0}));
}

TEST(Rules, AcceptWhatFits) {
  EXPECT_THAT(problems_of(minimal("train: {length: 2h}\n"
                                  "schedule: {kind: cosine, length: 500 steps, warmup: 5 steps}")),
              IsEmpty());
  EXPECT_THAT(problems_of(minimal("train: {length: 2h}\nschedule: {kind: constant}")), IsEmpty());
  EXPECT_THAT(problems_of(digits(", transforms: [normalize: digits, random_erasing]")), IsEmpty());
  EXPECT_THAT(problems_of(minimal("schedule: {kind: wsd, warmup: 3 epochs, decay: 7 epochs}")),
              IsEmpty());
  EXPECT_THAT(problems_of(minimal("device: cpu\nprecision: {mode: bf16}")), IsEmpty());
}

TEST(Rules, AcceptImagesThatFit) {
  for (const char* train :
       {", channels: 1", ", channels: 1, background: [0, 0, 0]", ", channels: 1, background: [9]",
        ", background: [9]", ", background: [1, 2, 3]", ", transforms: imagenet_train",
        ", channels: 1, transforms: [normalize: mnist, random_erasing]",
        ", transforms: [rand_augment: {magnitude: 30, bins: 31}, normalize: imagenet]"})
    EXPECT_THAT(problems_of(folder(train)), IsEmpty()) << train;
  EXPECT_THAT(problems_of(digits(", channels: 3, transforms: [trivial_augment, normalize: cifar10]",
                                 "  val: {kind: cifar10, path: c}\n")),
              IsEmpty());
  EXPECT_THAT(problems_of(digits("",
                                 "  val: {kind: manifest, path: m, channels: 1}\n"
                                 "  loader: {decode: gpu, cache: ram}\n")),
              IsEmpty());
  EXPECT_THAT(problems_of(folder(", transforms: [rand_augment]", "device: cpu\n")), IsEmpty());
}

// A rule over a field that could not be read would only repeat the first mistake.
TEST(Rules, LeaveOutFieldsThatAreWrongAlready) {
  EXPECT_THAT(problems_of(minimal("checkpoint: {best: {metric: val/accurcy}}\n")),
              ElementsAre(HasSubstr("did you mean \"val/accuracy\"?")));
  EXPECT_THAT(problems_of("model: {kind: lenet, classes: 7}\noptim: {kind: sgd}\n"
                          "data: {train: {kind: digts}}\n"),
              ElementsAre(HasSubstr("did you mean \"digits\"?")));
  EXPECT_THAT(problems_of(folder(", channels: 2, background: [1, 2], "
                                 "transforms: [normalize: {mean: [0, 0], std: [1, 1]}]")),
              ElementsAre(HasSubstr("data.train.channels: expected")));
  EXPECT_THAT(
      problems_of(folder(", transforms: [rand_augment: {bins: 1}]", "  loader: {decode: gpu}\n")),
      ElementsAre(HasSubstr("rand_augment.bins: expected")));
  EXPECT_THAT(problems_of(minimal("batch: {global: 0, micro: 100, accumulate: 7}")),
              ElementsAre(HasSubstr("batch.global: expected")));
}

TEST(Rules, AreReportedTogetherWithOtherMistakes) {
  EXPECT_THAT(
      problems_of(minimal("sed: 1\ndevice: cpu\nrequire_gpu: true\nprecision: {mode: fp16}")),
      ElementsAre(HasSubstr(":4:1: sed"), HasSubstr(":6:14: require_gpu"),
                  HasSubstr(":7:19: precision.mode")));
}

}  // namespace
}  // namespace trainer::config::testing

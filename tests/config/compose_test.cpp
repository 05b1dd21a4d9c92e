// Environment variables, base files and overrides.
#include <cstdlib>
#include <string>

#include "support.h"

namespace trainer::config::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Environment : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("CONFIG_TEST_LR", "0.25", 1);
    setenv("CONFIG_TEST_NAME", "17", 1);
    setenv("CONFIG_TEST_EMPTY", "", 1);
    unsetenv("CONFIG_TEST_UNSET");
  }
};

TEST_F(Environment, ExpandsBeforeTyping) {
  const Experiment e = sound(
      "name: ${CONFIG_TEST_NAME}\nseed: ${CONFIG_TEST_UNSET:-3}\n"
      "device: ${CONFIG_TEST_EMPTY:-cpu}\nmodel: {kind: lenet, weights: "
      "'a/${CONFIG_TEST_NAME}/b${CONFIG_TEST_UNSET:-}.pt'}\n"
      "data: {train: {kind: digits}}\noptim: {kind: sgd, lr: \"${CONFIG_TEST_LR}\"}\n");
  EXPECT_EQ(e.name, "17");
  EXPECT_EQ(e.seed, 3U);
  EXPECT_EQ(e.device.kind, DeviceKind::cpu);
  EXPECT_EQ(std::get<LeNet>(e.model).weights->path, "a/17/b.pt");
  EXPECT_EQ(std::get<Sgd>(e.optim).lr, 0.25);
}

TEST_F(Environment, KeepsWhatIsEscaped) {
  const Experiment e = sound(
      "model: {kind: lenet, weights: \"a$${CONFIG_TEST_LR}$b\"}\ndata: {train: {kind: digits}}\n"
      "optim: {kind: sgd}\n");
  EXPECT_EQ(std::get<LeNet>(e.model).weights->path, "a${CONFIG_TEST_LR}$b");
}

TEST_F(Environment, NamesWhatIsMissing) {
  EXPECT_THAT(
      problems_of(minimal("name: a${CONFIG_TEST_UNSET}\nseed: ${1X}\ndevice: \"${CONFIG_TEST_LR\"\n"
                          "require_gpu: ${CONFIG_TEST_LR}")),
      ElementsAre("e.yaml:4:7: name: environment variable CONFIG_TEST_UNSET is not set; set it, or "
                  "give a default: ${CONFIG_TEST_UNSET:-default}",
                  HasSubstr("e.yaml:5:7: seed: expected ${NAME} or ${NAME:-default}, found "
                            "\"${1X}\""),
                  HasSubstr("e.yaml:6:9: device: ${ without its }"),
                  HasSubstr("e.yaml:7:14: require_gpu: expected true or false, found 0.25")));
}

TEST(Base, MergesMapsReplacesListsAndOtherKinds) {
  const Loaded loaded = load("config/data/child.yaml", {});
  ASSERT_THAT(messages(loaded), IsEmpty());
  const Experiment& e = loaded.experiment;
  EXPECT_EQ(e.name, "child");
  EXPECT_EQ(std::get<ResNet>(e.model).stem, Stem::cifar);
  EXPECT_EQ(std::get<ResNet>(e.model).classes, 10);
  const auto& train = std::get<Synthetic>(e.data.train);
  EXPECT_THAT(train.shape, ElementsAre(3, 32, 32));
  ASSERT_EQ(train.transforms.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<Normalize>(train.transforms[0]));
  EXPECT_EQ(std::get<Adam>(e.optim).lr, 2e-3);
}

TEST(Base, IsInheritedThroughSeveralFiles) {
  const Loaded loaded = load("config/data/grandchild.yaml", {});
  ASSERT_THAT(messages(loaded), IsEmpty());
  EXPECT_EQ(loaded.experiment.seed, 9U);
  EXPECT_EQ(loaded.experiment.name, "child");
}

TEST(Base, RefusesCyclesAndMissingFiles) {
  EXPECT_THAT(messages(load("config/data/cycle_a.yaml", {})),
              ElementsAre("config/data/cycle_b.yaml:2:7: base: the files inherit from each other: "
                          "cycle_a.yaml -> cycle_b.yaml -> cycle_a.yaml"));
  EXPECT_THAT(problems_of("base: config/data/none.yaml\nsed: 1\n"),
              ElementsAre("e.yaml:1:7: base: \"config/data/none.yaml\": no such file"));
  EXPECT_THAT(problems_of("base: [a]\n"), ElementsAre(HasSubstr("expected the path")));
}

TEST(Base, KeepsThePlacesOfBothFiles) {
  EXPECT_THAT(
      messages(load("config/data/on_bad_base.yaml", {})),
      ElementsAre("config/data/on_bad_base.yaml:4:7: log.cvs: unknown key; did you mean \"csv\"?",
                  "config/data/bad_base.yaml:2:1: sed: unknown key; did you mean \"seed\"?",
                  HasSubstr("config/data/bad_base.yaml:3:24: optim.lr: expected a number")));
}

TEST(Overrides, SetValuesAndMakeMaps) {
  const Experiment e = sound(
      "model: {kind: lenet}\noptim: {kind: sgd}\n"
      "data: {train: {kind: digits, transforms: [{normalize: digits}, {random_erasing: 0.1}]}}\n",
      {"optim.lr=3e-4", "optim.momentum=0.5", "optim.momentum=0.75", "train.stop_early=null",
       "log.csv=true", "data.train.transforms.1.random_erasing=0.9", "name=a=b.c", "name=x",
       "optim.groups=[{match: \"*.bias\", lr_factor: 2}]", "optim.groups.0.lr_factor=4",
       "checkpoint.every=", "model.weights.path=w.safetensors"});
  const auto& sgd = std::get<Sgd>(e.optim);
  EXPECT_EQ(sgd.lr, 3e-4);
  EXPECT_EQ(sgd.momentum, 0.75);
  EXPECT_TRUE(e.log.csv);
  EXPECT_EQ(e.name, "x");
  EXPECT_EQ(std::get<RandomErasing>(std::get<Digits>(e.data.train).transforms[1]).p, 0.9);
  EXPECT_THAT(sgd.groups, ElementsAre(Group{"*.bias", 4, std::nullopt}));
  EXPECT_EQ(e.checkpoint.every, std::nullopt);
  EXPECT_EQ(std::get<LeNet>(e.model).weights->path, "w.safetensors");
}

TEST(Overrides, AreNamedAsTheyWereTyped) {
  EXPECT_THAT(
      problems_of(minimal(),
                  {"optim.lrr=1", "optim.lr=[1", "seed", "a..b=1", "base=x.yaml", "seed.deep=2",
                   "data.train.transforms=[]", "data.train.transforms.2=horizontal_flip",
                   "name=a b", "optim.kind.x=1"}),
      ElementsAre("--set optim.lrr=1: optim.lrr: unknown key; did you mean \"lr\"?",
                  HasSubstr("--set optim.lr=[1: not valid YAML"),
                  "--set seed: expected KEY=VALUE, such as optim.lr=3e-4",
                  HasSubstr("--set a..b=1: expected KEY=VALUE"),
                  HasSubstr("--set base=x.yaml: base: is read before the overrides"),
                  HasSubstr("--set seed.deep=2: seed: expected an integer"),
                  "--set data.train.transforms.2=horizontal_flip: data.train.transforms: a list of "
                  "0 has no item \"2\"; items count from 0",
                  HasSubstr("--set name=a b: name: expected a name"),
                  "--set optim.kind.x=1: optim.kind: is \"sgd\" there, which has no key \"x\"; set "
                  "the whole value"));
}

TEST(Overrides, PlaceBrokenRules) {
  EXPECT_THAT(problems_of(minimal(), {"model.classes=7"}),
              ElementsAre(HasSubstr("--set model.classes=7: model.classes: data.train has 10")));
}

}  // namespace
}  // namespace trainer::config::testing

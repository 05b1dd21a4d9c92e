#include "optim/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"

namespace trainer::optim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kNames{"conv1.weight", "bn1.weight", "bn1.bias", "fc.weight",
                                      "fc.bias"};

config::OptimCommon with_groups(std::vector<config::Group> groups) {
  config::OptimCommon config;
  config.weight_decay = 0.1;
  config.groups = std::move(groups);
  return config;
}

std::string message_for(std::vector<config::Group> groups) {
  try {
    assign_groups(with_groups(std::move(groups)), kNames);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    return error.what();
  }
  return "nothing was thrown";
}

TEST(AssignGroups, WithoutGroupsGivesAllTheOptimisersSettings) {
  const auto settings = assign_groups(with_groups({}), kNames);
  EXPECT_EQ(settings, std::vector<GroupSettings>(5, GroupSettings{1.0, 0.1}));
}

TEST(AssignGroups, TheFirstMatchTakesAParameter) {
  const auto settings =
      assign_groups(with_groups({{"fc.*", 10.0, {}}, {"*.bias", 1.0, 0.0}}), kNames);
  const GroupSettings plain{1.0, 0.1};
  const GroupSettings head{10.0, 0.1};  // no weight_decay of its own: the optimiser's
  const GroupSettings bias{1.0, 0.0};
  EXPECT_EQ(settings, (std::vector<GroupSettings>{plain, plain, bias, head, head}));
}

TEST(AssignGroups, RefusesAGlobThatMatchesNothingAndNamesTheNearest) {
  EXPECT_EQ(message_for({{"*.bias", 1.0, 0.0}, {"fc.wieght", 1.0, 0.0}}),
            "optim.groups[1].match: \"fc.wieght\" matches no parameter of the model; the nearest "
            "is \"fc.weight\"");
  EXPECT_THAT(message_for({{"*.biass", 1.0, 0.0}}), HasSubstr("the nearest is \"bn1.bias\""));
  EXPECT_THAT(message_for({{"*bn2*bias", 1.0, 0.0}}), HasSubstr("the nearest is \"bn1.bias\""));
}

TEST(AssignGroups, NamesTheRangeOfParametersWhereNothingIsNear) {
  EXPECT_THAT(message_for({{"transformer.*", 1.0, 0.0}}),
              HasSubstr("its parameters run from \"conv1.weight\" to \"fc.bias\""));
}

TEST(AssignGroups, RefusesAGroupThatEarlierOnesLeaveNothing) {
  EXPECT_EQ(message_for({{"*.bias", 1.0, 0.0}, {"bn1.bias", 2.0, 0.0}}),
            "optim.groups[1].match: \"bn1.bias\" matches only parameters that earlier groups take; "
            "put it before them or remove it");
}

// --- layer_decay ---------------------------------------------------------------------------------
struct Decayed {
  std::string name;
  int distance;  // from the head
};

void expect_distances(const std::vector<Decayed>& wanted) {
  constexpr double kDecay = 0.75;
  config::OptimCommon config = with_groups({});
  config.layer_decay = kDecay;
  std::vector<std::string> names;
  for (const Decayed& one : wanted) names.push_back(one.name);
  const auto settings = assign_groups(config, names);
  ASSERT_EQ(settings.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_DOUBLE_EQ(settings[i].lr_factor, std::pow(kDecay, wanted[i].distance)) << names[i];
    EXPECT_EQ(settings[i].weight_decay, 0.1) << names[i];
  }
}

TEST(LayerDecay, FollowsTheBlocksOfGpt2) {
  expect_distances({{"transformer.wte.weight", 4},
                    {"transformer.wpe.weight", 4},
                    {"transformer.h.0.ln_1.weight", 3},
                    {"transformer.h.0.attn.c_attn.weight", 3},
                    {"transformer.h.1.mlp.c_proj.bias", 2},
                    {"transformer.h.2.ln_2.bias", 1},
                    {"transformer.ln_f.weight", 0},
                    {"lm_head.weight", 0}});
}

TEST(LayerDecay, FollowsTheBlocksOfLlamaThroughTwoDigits) {
  expect_distances({{"model.embed_tokens.weight", 12},
                    {"model.layers.0.self_attn.q_proj.weight", 11},
                    {"model.layers.2.mlp.gate_proj.weight", 9},
                    {"model.layers.10.post_attention_layernorm.weight", 1},
                    {"model.norm.weight", 0},
                    {"lm_head.weight", 0}});
}

TEST(LayerDecay, FollowsTheBlocksOfVit) {
  expect_distances({{"cls_token", 3},
                    {"pos_embed", 3},
                    {"patch_embed.proj.weight", 3},
                    {"blocks.0.norm1.weight", 2},
                    {"blocks.0.attn.qkv.bias", 2},
                    {"blocks.1.mlp.fc2.weight", 1},
                    {"norm.weight", 0},
                    {"head.weight", 0},
                    {"head.bias", 0}});
}

TEST(LayerDecay, CountsAResNetsBlocksThroughItsStages) {
  expect_distances({{"conv1.weight", 5},
                    {"bn1.bias", 5},
                    {"layer1.0.conv1.weight", 4},
                    {"layer1.1.bn2.weight", 3},
                    {"layer2.0.downsample.0.weight", 2},
                    {"layer2.0.conv1.weight", 2},
                    {"layer2.1.conv2.weight", 1},
                    {"fc.weight", 0},
                    {"fc.bias", 0}});
}

TEST(LayerDecay, CountsEachLayerOfARow) {
  expect_distances({{"layers.0.weight", 2},
                    {"layers.0.bias", 2},
                    {"layers.1.weight", 1},
                    {"layers.2.weight", 0},
                    {"layers.2.bias", 0}});
  expect_distances({{"conv1.weight", 4},
                    {"conv2.weight", 3},
                    {"fc1.weight", 2},
                    {"fc2.bias", 1},
                    {"fc3.weight", 0}});
}

// With adapters nothing else learns, and the blocks keep their numbers where the first are frozen.
TEST(LayerDecay, GivesAnAdapterItsLayersDepth) {
  expect_distances({{"transformer.h.2.attn.c_attn.lora_A.weight", 2},
                    {"transformer.h.2.attn.c_attn.lora_B.weight", 2},
                    {"transformer.h.3.attn.c_attn.lora_A.weight", 1}});
  expect_distances({{"layers.0.lora_A.weight", 1},
                    {"layers.0.lora_B.weight", 1},
                    {"layers.1.lora_A.weight", 0}});
}

TEST(LayerDecay, LeavesAHeadAloneWithTheWholeRate) {
  expect_distances({{"norm.weight", 0}, {"head.weight", 0}, {"head.bias", 0}});
  expect_distances({{"fc.weight", 0}, {"fc.bias", 0}});
}

TEST(LayerDecay, MultipliesTheGroupsFactor) {
  config::OptimCommon config = with_groups({{"*.bias", 10.0, 0.0}});
  config.layer_decay = 0.5;
  const auto settings = assign_groups(
      config, {"blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias", "head.weight", "head.bias"});
  EXPECT_EQ(settings,
            (std::vector<GroupSettings>{{0.5, 0.1}, {5.0, 0.0}, {1.0, 0.1}, {10.0, 0.0}}));
}

}  // namespace
}  // namespace trainer::optim

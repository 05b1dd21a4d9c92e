#include "optim/groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace trainer::optim

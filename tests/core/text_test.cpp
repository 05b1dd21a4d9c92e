#include "core/text.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(Nearest, FindsALikelyMisspelling) {
  const std::vector<std::string> keys{"lr", "weight_decay", "momentum", "kind"};
  EXPECT_EQ(nearest("lrr", keys), "lr");
  EXPECT_EQ(nearest("weigth_decay", keys), "weight_decay");  // a transposition is one edit
  EXPECT_EQ(nearest("momentun", keys), "momentum");
  EXPECT_EQ(nearest("kind", keys), "kind");
}

TEST(Nearest, GivesNothingWhereNothingIsNear) {
  const std::vector<std::string> keys{"lr", "weight_decay"};
  EXPECT_EQ(nearest("optimizer", keys), "");
  EXPECT_EQ(nearest("ab", keys), "");
  EXPECT_EQ(nearest("lr", {}), "");
  EXPECT_EQ(nearest(std::string(65, 'a'), {std::string(65, 'a')}), "");  // too long to be a slip
}

TEST(Nearest, PrefersTheNearer) {
  EXPECT_EQ(nearest("cosine", {"cosined", "cosine_x", "sine"}), "cosined");
  EXPECT_EQ(nearest("step", {"stop", "steep"}), "stop");  // the first of equals
}

TEST(GlobMatch, MatchesStarsAndQuestionMarks) {
  EXPECT_TRUE(glob_match("*.bias", "layer1.0.conv1.bias"));
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("**", "x"));
  EXPECT_TRUE(glob_match("bn?.*", "bn1.weight"));
  EXPECT_TRUE(glob_match("a*b*c", "aXbXbXc"));
  EXPECT_TRUE(glob_match("*ab", "aab"));  // needs to go back to the star
  EXPECT_TRUE(glob_match("fc.weight", "fc.weight"));
}

TEST(GlobMatch, MatchesTheWholeText) {
  EXPECT_FALSE(glob_match("*.bias", "fc.bias.x"));
  EXPECT_FALSE(glob_match("fc", "fc.weight"));
  EXPECT_FALSE(glob_match("bn?", "bn"));
  EXPECT_FALSE(glob_match("", "x"));
  EXPECT_FALSE(glob_match("a*b*c", "aXcXb"));
  EXPECT_FALSE(glob_match("fc.weight", "fcxweight"));  // a dot is a dot
}

TEST(HumanBytes, PicksTheUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(24.0 * (1 << 30)), "24.0 GiB");
  EXPECT_EQ(human_bytes(0x1.0p60), "1048576.0 TiB");  // TiB is the largest
}

TEST(HumanSeconds, PicksTheUnits) {
  EXPECT_EQ(human_seconds(0.25), "0.2s");
  EXPECT_EQ(human_seconds(59.4), "59.4s");
  EXPECT_EQ(human_seconds(59.7), "1m00s");
  EXPECT_EQ(human_seconds(93.4), "1m33s");
  EXPECT_EQ(human_seconds(3600), "1h00m");
  EXPECT_EQ(human_seconds(90061), "25h01m");
}

}  // namespace
}  // namespace trainer

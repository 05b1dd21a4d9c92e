#include "engine/decode_choice.h"

#include <gtest/gtest.h>

namespace trainer::engine {
namespace {

using config::Decode;

TEST(DecodeChoice, TakesTheFasterOne) {
  EXPECT_EQ(faster_decode(900, 1000, std::nullopt), Decode::gpu);
  EXPECT_EQ(faster_decode(1000, 900, std::nullopt), Decode::cpu);
  EXPECT_EQ(faster_decode(1000, 1000, std::nullopt), Decode::cpu);
}

TEST(DecodeChoice, LeavesTheGpuToTrainingWhereTheCpuKeepsUp) {
  EXPECT_EQ(faster_decode(8000, 19000, 4700), Decode::cpu);
  EXPECT_EQ(faster_decode(5000, 19000, 4700), Decode::gpu);  // too close to rely on
  EXPECT_EQ(faster_decode(2000, 19000, 4700), Decode::gpu);
}

}  // namespace
}  // namespace trainer::engine

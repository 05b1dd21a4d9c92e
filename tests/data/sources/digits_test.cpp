#include <gmock/gmock.h>

#include "data/dataset.h"

namespace trainer::data {
namespace {

using ::testing::ElementsAre;

TEST(Digits, AreEmbeddedAndStratified) {
  for (const auto split : {config::Split::train, config::Split::test}) {
    config::Digits config;
    config.split = split;
    const auto source = make_source(config, 1);
    const bool train = split == config::Split::train;
    EXPECT_EQ(source->size(), train ? 1437 : 360);
    EXPECT_EQ(source->channels(), 1);
    EXPECT_FALSE(source->encoded());
    EXPECT_EQ(source->classes(), 10);
    std::vector<int> counts(10);
    std::vector<std::uint8_t> buffer;
    int brightest = 0;
    for (std::int64_t i = 0; i < source->size(); ++i) {
      ++counts.at(static_cast<std::size_t>(source->label(i)));
      const Raw raw = source->fetch(i, buffer);
      ASSERT_EQ(raw.bytes.size(), 64U);
      ASSERT_EQ(raw.height, 8);
      ASSERT_EQ(raw.width, 8);
      ASSERT_EQ(raw.channels, 1);
      for (const std::uint8_t pixel : raw.bytes) brightest = std::max(brightest, int{pixel});
    }
    EXPECT_EQ(brightest, 255);
    EXPECT_THAT(counts, train ? ElementsAre(142, 145, 142, 146, 145, 146, 145, 143, 139, 144)
                              : ElementsAre(36, 37, 35, 37, 36, 36, 36, 36, 35, 36));
  }
}

TEST(Digits, FirstSampleIsTheFilesFirstRow) {
  const auto source = make_source(config::Digits{}, 1);
  std::vector<std::uint8_t> buffer;
  const Raw raw = source->fetch(0, buffer);
  EXPECT_EQ(source->label(0), 0);
  // 0 0 5 13 9 1 0 0 of the original, times 255/16.
  EXPECT_THAT(std::vector<int>(raw.bytes.begin(), raw.bytes.begin() + 8),
              ElementsAre(0, 0, 80, 207, 143, 16, 0, 0));
}

}  // namespace
}  // namespace trainer::data

#include <set>

#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

TEST(Synthetic, IsAFunctionOfTheSeed) {
  config::Synthetic config;
  config.samples = 50;
  config.shape = {3, 5, 7};
  config.classes = 4;
  const auto first = make_source(config, 1);
  const auto again = make_source(config, 1);
  const auto other = make_source(config, 2);
  EXPECT_EQ(first->size(), 50);
  EXPECT_NE(first->fingerprint(), other->fingerprint());
  std::set<std::int64_t> labels;
  double sum = 0;
  for (std::int64_t i = 0; i < 50; ++i) {
    const std::string pixels = fetched(*first, i);
    ASSERT_EQ(pixels.size(), 105U);
    EXPECT_EQ(fetched(*again, i), pixels);
    EXPECT_EQ(first->label(i), again->label(i));
    EXPECT_NE(fetched(*other, i), pixels);
    labels.insert(first->label(i));
    for (const char pixel : pixels) sum += static_cast<std::uint8_t>(pixel);
  }
  EXPECT_EQ(labels.size(), 4U);
  EXPECT_NEAR(sum / (50 * 105), 127.5, 5.0);
}

}  // namespace
}  // namespace trainer::data

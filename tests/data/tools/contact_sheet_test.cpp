#include "data/tools/contact_sheet.h"

#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

TEST(ContactSheet, OtherThanAsciiBecomesQuestionMarks) {
  EXPECT_EQ(ascii_only("cat-7"), "cat-7");
  EXPECT_EQ(ascii_only("dög\t\xE7\x8A\xAC"), "d?g??");
}

TEST(ContactSheet, SmallImagesAreEnlargedByAWholeFactor) {
  EXPECT_EQ(enlargement(8, 8), 8);
  EXPECT_EQ(enlargement(30, 20), 2);
  EXPECT_EQ(enlargement(64, 1), 1);
  EXPECT_EQ(enlargement(224, 224), 1);
}

std::vector<MemorySource::Sample> grey_samples(int count, int height, int width) {
  std::vector<MemorySource::Sample> samples;
  for (int i = 0; i < count; ++i) {
    const auto size = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
    samples.push_back({std::string(size, static_cast<char>(i)), i % 3, 1, height, width, 1});
  }
  return samples;
}

TEST(ContactSheet, ShowsTheBatchInRows) {
  const MemorySource source(grey_samples(70, 32, 16), {"cat", "dög", "cow"});
  const Pipeline pipeline({}, 1);
  const Sampler sampler(70, 70, /*drop_last=*/false, /*shuffle=*/false, 1);
  LoaderOptions options;
  options.last_step = 1;
  Loader loader(source, pipeline, sampler, options);
  const ContactSheet sheet = make_contact_sheet(loader, *loader.next(), source.class_names());
  // Twice as large, in tiles of 84 x 68 pixels, 8 by 8.
  EXPECT_EQ(sheet.picture.height, 8 * 84);
  EXPECT_EQ(sheet.picture.width, 8 * 68);
  const auto pixel = [&sheet](int y, int x) {
    const auto* at = sheet.picture.pixels.data() + (y * sheet.picture.width + x) * 3;
    return std::vector<int>(at, at + 3);
  };
  EXPECT_THAT(pixel(0, 0), Each(0));
  EXPECT_THAT(pixel(84 + 63, 68 + 31), Each(9));  // sample 9, its last pixel
  EXPECT_THAT(pixel(84 + 63, 68 + 32), Each(255));
  EXPECT_THAT(pixel(84 + 64, 68 + 31), Each(255));
  ASSERT_EQ(sheet.captions.size(), 64);
  EXPECT_EQ(sheet.captions[1].text, "d?g");
  EXPECT_EQ(sheet.captions[9].left, 68);
  EXPECT_EQ(sheet.captions[9].top, 84 + 64);
  EXPECT_EQ(sheet.captions[9].width, 64);
}

}  // namespace
}  // namespace trainer::data

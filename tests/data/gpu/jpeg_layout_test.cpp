#include "data/gpu/jpeg_layout.h"

#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "support.h"

namespace trainer::data {
namespace {

std::vector<std::uint8_t> bytes_of(const std::string& name) {
  std::ifstream file(kGolden / "decode" / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(JpegLayout, KnowsTheSamplings) {
  const auto sampling = [](const std::string& name) {
    const auto layout = hardware_layout(bytes_of(name));
    return layout ? std::pair{layout->horizontal, layout->vertical} : std::pair{0, 0};
  };
  EXPECT_EQ(sampling("regions_444.jpg"), (std::pair{1, 1}));
  EXPECT_EQ(sampling("regions_422.jpg"), (std::pair{2, 1}));
  EXPECT_EQ(sampling("regions_440.jpg"), (std::pair{1, 2}));
  EXPECT_EQ(sampling("regions_420.jpg"), (std::pair{2, 2}));
  EXPECT_EQ(sampling("regions_411.jpg"), (std::pair{0, 0}));  // the hardware does not take it
}

TEST(JpegLayout, TakesGreyFiles) {
  const auto grey = hardware_layout(bytes_of("grey.jpg"));
  ASSERT_TRUE(grey.has_value());
  EXPECT_GT(grey->height, 0);
  EXPECT_GT(grey->width, 0);
}

TEST(JpegLayout, LeavesOthersToTheCpu) {
  for (const char* name : {"regions_progressive.jpg", "cmyk.jpg", "cmyk_unmarked.jpg", "ycck.jpg",
                           "rgb.png", "pixels.json"})
    EXPECT_FALSE(hardware_layout(bytes_of(name))) << name;
  EXPECT_FALSE(hardware_layout({}));
}

TEST(JpegLayout, TakesNoFileThatIsCutShort) {
  const std::vector<std::uint8_t> whole = bytes_of("regions_420.jpg");
  ASSERT_TRUE(hardware_layout(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(hardware_layout(Bytes(whole).first(size))) << size;
  std::vector<std::uint8_t> padded = whole;
  padded.resize(whole.size() + 100);
  EXPECT_TRUE(hardware_layout(padded));
}

}  // namespace
}  // namespace trainer::data

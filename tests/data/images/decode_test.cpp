#include "data/decode.h"

#include <gmock/gmock.h>

#include <thread>

#include "data/exif.h"
#include "support.h"

namespace trainer::data {
namespace {

using ::testing::HasSubstr;

Image decode(const std::string& bytes) {
  Image image;
  decode_image({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, image);
  return image;
}

class Decode : public FolderTest {};

// Pillow carries a newer libjpeg-turbo, whose rounding differs by one here and there.
TEST_F(Decode, JpegFilesEqualPillow) {
  int files = 0;
  for (const auto& [name, wanted] : golden().at("decoded").items()) {
    if (!name.ends_with(".jpg")) continue;
    expect_near(decode(content(name)), image_of(wanted), 2, name);
    ++files;
  }
  EXPECT_EQ(files, 12);
}

TEST_F(Decode, OtherFormatsEqualPillow) {
  try {
    decode(content("rgb.png"));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  int files = 0;
  for (const auto& [name, wanted] : golden().at("decoded").items()) {
    if (name.ends_with(".jpg")) continue;
    expect_near(decode(content(name)), image_of(wanted), 1, name);
    ++files;
  }
  EXPECT_EQ(files, 8);
}

TEST_F(Decode, EveryTruncationOfAJpegIsAnError) {
  const std::string whole = content("rgb.jpg");
  for (std::size_t length = 0; length < whole.size(); length += 7)
    EXPECT_THROW(decode(whole.substr(0, length)), Error) << length;
  EXPECT_EQ(decode(whole).width, 24);
}

TEST_F(Decode, DamagedJpegsNeverCrash) {
  const std::string whole = content("progressive.jpg");
  for (std::size_t at = 2; at < whole.size(); at += 3) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
    try {
      decode(damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data);
    }
  }
}

TEST_F(Decode, DamagedFilesOfOtherFormatsAreErrors) {
  try {
    decode(content("rgb.png"));
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_THAT(error_of(Exit::data, [] { decode(content("rgb.png").substr(0, 60)); }),
              HasSubstr("damaged or cut short"));
}

TEST_F(Decode, GoesByContentNotByName) {
  const auto format = [](const std::string& name) {
    const std::string bytes = content(name);
    return format_of({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  };
  EXPECT_EQ(format("rgb.jpg"), Format::jpeg);
  EXPECT_EQ(format("rgb.png"), Format::png);
  EXPECT_EQ(format("rgb.bmp"), Format::bmp);
  EXPECT_EQ(format("rgb.webp"), Format::webp);
  EXPECT_EQ(format("rgb.tif"), Format::tiff);
  EXPECT_THAT(error_of(Exit::data, [] { decode("GIF89a, which is not read"); }),
              HasSubstr("no image of a known format (JPEG, PNG, BMP, WebP, TIFF, PNM)"));
}

TEST_F(Decode, WorksOnManyThreads) {
  const std::string bytes = content("rgb.jpg");
  const Image wanted = decode(bytes);
  std::vector<std::thread> threads;
  std::atomic<int> equal{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) equal += decode(bytes).pixels == wanted.pixels ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 80);
}

TEST(Exif, MalformedBlocksAreUpright) {
  const auto orientation = [](const std::string& text) {
    return exif_orientation({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  const std::string head("Exif\0\0II*\0\x08\0\0\0\x01\0", 16);
  EXPECT_EQ(orientation(head + std::string("\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 12)), 6);
  EXPECT_EQ(orientation(head + std::string("\x12\x01\x03\0\x01\0\0\0\x09\0\0\0", 12)), 1);
  EXPECT_EQ(orientation(head), 1);
  EXPECT_EQ(orientation(""), 1);
  EXPECT_EQ(orientation("Exif"), 1);
  EXPECT_EQ(orientation(std::string("Exif\0\0II*\0\xFF\xFF\xFF\xFF", 14)), 1);
}

}  // namespace
}  // namespace trainer::data

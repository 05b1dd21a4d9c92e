#include "data/images/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "data/images/exif.h"
#include "support/errors.h"

namespace trainer::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::filesystem::path kFiles = "data/golden/decode";
constexpr std::array<std::uint8_t, 3> kBackground{10, 200, 90};  // of tests/oracle/decode.py

const nlohmann::json& golden() {
  static const nlohmann::json all = nlohmann::json::parse(std::ifstream(kFiles / "pixels.json"));
  return all;
}

std::string content(const std::string& name) {
  std::ostringstream bytes;
  bytes << std::ifstream(kFiles / name, std::ios::binary).rdbuf();
  return bytes.str();
}

Bytes bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

Image decode(const std::string& bytes, const DecodeOptions& options = {}) {
  Image image;
  decode_image(bytes_of(bytes), options, image);
  return image;
}

Image image_of(const nlohmann::json& encoded) {
  Image image{encoded.at("height"), encoded.at("width"), encoded.at("channels"), {}};
  const auto hex = encoded.at("pixels").get<std::string>();
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    image.pixels.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return image;
}

// Equal sizes, and no pixel further away than `most`.
void expect_near(const Image& got, const Image& wanted, int most) {
  ASSERT_EQ(got.height, wanted.height);
  ASSERT_EQ(got.width, wanted.width);
  ASSERT_EQ(got.channels, wanted.channels);
  ASSERT_EQ(got.pixels.size(), wanted.pixels.size());
  int worst = 0;
  for (std::size_t i = 0; i < got.pixels.size(); ++i)
    worst = std::max(worst, std::abs(int{got.pixels[i]} - int{wanted.pixels[i]}));
  EXPECT_LE(worst, most);
}

// Whether the images module is there.
bool reads_png() {
  try {
    decode(content("rgb.png"));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Compares all golden files whose format is in `kinds` with their pixels; their number.
int expect_golden(std::initializer_list<Format> kinds) {
  int files = 0;
  for (const auto& [name, wanted] : golden().items()) {
    SCOPED_TRACE(name);
    const std::string bytes = content(name);
    if (std::find(kinds.begin(), kinds.end(), format_of(bytes_of(bytes))) == kinds.end()) continue;
    const int most = wanted.at("most").get<int>();
    DecodeOptions options;
    expect_near(decode(bytes, options), image_of(wanted.at("rgb")), most);
    options.channels = 1;
    expect_near(decode(bytes, options), image_of(wanted.at("grey")), most);
    options.channels = 3;
    options.background = kBackground;
    expect_near(decode(bytes, options),
                image_of(wanted.contains("over") ? wanted.at("over") : wanted.at("rgb")), most);
    ++files;
  }
  return files;
}

TEST(Decode, JpegFilesEqualPillow) { EXPECT_EQ(expect_golden({Format::jpeg}), 16); }

TEST(Decode, PnmFilesEqualPillow) { EXPECT_EQ(expect_golden({Format::pnm}), 6); }

TEST(Decode, OtherFormatsEqualPillow) {
  if (!reads_png()) GTEST_SKIP() << "no images module";
  EXPECT_EQ(expect_golden({Format::png, Format::bmp, Format::tiff, Format::webp}), 34);
}

TEST(Decode, GoesByContentNotByName) {
  const auto format = [](const std::string& bytes) { return name_of(format_of(bytes_of(bytes))); };
  EXPECT_STREQ(format(content("rgb.jpg")), "JPEG");
  EXPECT_STREQ(format(content("rgb.png")), "PNG");
  EXPECT_STREQ(format(content("rgb.bmp")), "BMP");
  EXPECT_STREQ(format(content("rgb.webp")), "WebP");
  EXPECT_STREQ(format(content("rgb.tif")), "TIFF");
  EXPECT_STREQ(format(content("big_endian.tif")), "TIFF");
  EXPECT_STREQ(format(content("rgb.ppm")), "PNM");
  EXPECT_STREQ(format("GIF89a"), "unknown");
  EXPECT_STREQ(format(""), "unknown");
}

TEST(Decode, WhatIsNoImageIsAnError) {
  EXPECT_EQ(error_of(Exit::data, [] { decode(""); }), "the file is empty");
  EXPECT_EQ(error_of(Exit::data, [] { decode("a list of the pictures in this folder"); }),
            "the content is no image of a known format (JPEG, PNG, BMP, WebP, TIFF, PNM)");
}

TEST(Decode, ReadsOnManyThreads) {
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

// Headers

ImageInfo header(const std::string& name, const DecodeOptions& options = {}) {
  return read_header(bytes_of(content(name)), options);
}

TEST(Header, EqualsTheGoldenFiles) {
  for (const auto& [name, wanted] : golden().items()) {
    const ImageInfo info = header(name);
    EXPECT_EQ(info.height, wanted.at("rgb").at("height").get<int>()) << name;
    EXPECT_EQ(info.width, wanted.at("rgb").at("width").get<int>()) << name;
  }
}

TEST(Header, TellsComponentsAndBits) {
  const std::vector<std::tuple<std::string, int, int>> all{
      {"rgb.jpg", 3, 8},           {"grey.jpg", 1, 8},     {"cmyk.jpg", 4, 8},
      {"rgb.png", 3, 8},           {"palette.png", 3, 8},  {"grey2.png", 1, 2},
      {"palette_alpha.png", 4, 8}, {"grey_key.png", 2, 8}, {"rgba16.png", 4, 16},
      {"grey_alpha.png", 2, 8},    {"rgba.webp", 4, 8},    {"lossy.webp", 3, 8},
      {"grey16.tif", 1, 16},       {"rgba.tif", 4, 8},     {"bits.pbm", 1, 1},
      {"most1023.pgm", 1, 16},     {"rgb.ppm", 3, 8},      {"rgb.bmp", 3, 8}};
  for (const auto& [name, components, bits] : all) {
    const ImageInfo info = header(name);
    EXPECT_EQ(info.components, components) << name;
    EXPECT_EQ(info.bits, bits) << name;
  }
  EXPECT_TRUE(header("progressive.jpg").progressive);
  EXPECT_FALSE(header("rgb.jpg").progressive);
}

TEST(Header, OrientationIsThatOfTheOptions) {
  DecodeOptions stored;
  stored.exif_orientation = false;
  for (const std::string name : {"orientation6.jpg", "orientation6.png", "orientation6.webp"}) {
    const ImageInfo turned = header(name);
    const ImageInfo kept = header(name, stored);
    EXPECT_EQ(turned.orientation, 6) << name;
    EXPECT_EQ(kept.orientation, 1) << name;
    EXPECT_EQ(turned.height, kept.width) << name;
    EXPECT_EQ(turned.width, kept.height) << name;
  }
  // Part of what a TIFF's rows mean, not a camera's note.
  EXPECT_EQ(header("orientation6.tif", stored).orientation, 6);
  expect_near(decode(content("orientation5.jpg"), stored), decode(content("orientation1.jpg")), 0);
}

TEST(Header, EveryTruncationIsReadOrRefused) {
  for (const auto& [name, wanted] : golden().items()) {
    const std::string whole = content(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      // On the heap, so that AddressSanitizer sees a read behind the end.
      const std::vector<std::uint8_t> cut(whole.begin(),
                                          whole.begin() + static_cast<std::ptrdiff_t>(length));
      try {
        EXPECT_GT(read_header(cut, {}).width, 0);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data);
      }
    }
  }
}

// Puts an integer of `count` bytes, highest first, in place.
std::string patched(std::string bytes, std::size_t at, std::uint32_t value, std::size_t count = 4) {
  for (std::size_t i = 0; i < count; ++i)
    bytes.at(at + i) = static_cast<char>(value >> 8 * (count - 1 - i));
  return bytes;
}

std::uint32_t swapped(std::uint32_t value) { return __builtin_bswap32(value); }

std::string jpeg_of_size(std::uint32_t height, std::uint32_t width) {
  const std::string bytes = content("rgb.jpg");
  const std::size_t frame = bytes.find("\xFF\xC0");
  return patched(patched(bytes, frame + 5, height, 2), frame + 7, width, 2);
}

std::string png_of_size(std::uint32_t height, std::uint32_t width) {
  return patched(patched(content("rgb.png"), 16, width), 20, height);
}

std::vector<std::pair<std::string, std::string>> bombs() {
  const std::string webp = content("rgb.webp");
  std::string bmp = patched(content("rgb.bmp"), 18, swapped(30000));
  return {{"30000x30000", png_of_size(30000, 30000)},
          {"65500x65500", jpeg_of_size(65500, 65500)},
          {"65535x65535", jpeg_of_size(65535, 65535)},
          {"30000x30000", patched(bmp, 22, swapped(0U - 30000U))},
          {"16384x16384", patched(webp, 21, swapped(0x0FFFFFFF))},
          {"60000x50000", "P6\n60000 50000\n255\n "},
          {"60000x11", patched(content("big_endian.tif"), 18, 60000U << 16)}};
}

long peak_memory_kb() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != "VmHWM:") {
  }
  long size = 0;
  status >> size;
  return size;
}

TEST(Header, PicturesThatAreTooLargeAreRefusedBeforeTheirMemory) {
  const auto all = bombs();
  DecodeOptions options;
  EXPECT_EQ(options.max_pixels, 134217728);
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak begins anew
  const long before = peak_memory_kb();
  for (const auto& [size, bytes] : all) {
    options.max_pixels = size == "60000x11" ? 600000 : 134217728;
    const std::string wanted = "the picture has " + size + " pixels, more than the limit of " +
                               std::to_string(options.max_pixels) + " (max_pixels)";
    EXPECT_EQ(error_of(Exit::data, [&] { read_header(bytes_of(bytes), options); }), wanted);
    EXPECT_EQ(error_of(Exit::data, [&] { decode(bytes, options); }), wanted);
  }
  EXPECT_LE(peak_memory_kb() - before, 4096);
}

TEST(Header, TheLimitIsTheLargestSizeThatIsRead) {
  DecodeOptions options;
  options.max_pixels = 16 * 24;
  EXPECT_EQ(decode(content("rgb.jpg"), options).height, 16);
  options.max_pixels -= 1;
  EXPECT_THAT(error_of(Exit::data, [&] { decode(content("rgb.jpg"), options); }),
              HasSubstr("24x16 pixels, more than the limit of 383"));
}

TEST(Header, SidesOfZeroAreErrors) {
  EXPECT_EQ(error_of(Exit::data, [] { decode(png_of_size(0, 5)); }), "the picture has 5x0 pixels");
  EXPECT_EQ(error_of(Exit::data, [] { decode("P5 0 7 255\n"); }), "the picture has 0x7 pixels");
  EXPECT_THAT(error_of(Exit::data, [] { decode(jpeg_of_size(0, 8)); }),
              HasSubstr("damaged or cut short"));
  EXPECT_EQ(error_of(Exit::data, [] { decode(png_of_size(0xFFFFFFFF, 1)); }),
            "the picture has 1x4294967295 pixels, too many for a side");
}

TEST(Header, ImpossibleSamplesAreErrors) {
  // Of 50 bits, then of a colour type that there is not.
  EXPECT_THAT(error_of(Exit::data, [] { decode(patched(content("grey_key.png"), 24, 50, 1)); }),
              HasSubstr("samples of 50 bits"));
  EXPECT_THAT(error_of(Exit::data, [] { decode(patched(content("rgb.png"), 25, 5, 1)); }),
              HasSubstr("colour type 5"));
}

TEST(Header, WhatIsNotReadIsNamed) {
  EXPECT_THAT(error_of(Exit::data, [] { decode(content("animated.webp")); }),
              StartsWith("an animated WebP, which is not read"));
  EXPECT_THAT(error_of(Exit::data, [] { decode(content("grey_alpha.tif")); }),
              StartsWith("a grey TIFF with alpha, which is not read"));
}

// Damage

TEST(Damage, EveryTruncationIsAnError) {
  const bool module = reads_png();
  for (const auto& [name, wanted] : golden().items()) {
    const std::string whole = content(name);
    const Format format = format_of(bytes_of(whole));
    if (!module && format != Format::jpeg && format != Format::pnm) continue;
    // Text may end within its last number.
    const std::size_t longest = whole.size() - (name.starts_with("text") ? 4 : 0);
    for (std::size_t length = 0; length < longest; length += length + 8 < longest ? 7 : 1)
      EXPECT_THROW(decode(whole.substr(0, length)), Error) << name << " " << length;
  }
}

TEST(Damage, ErrorsNameTheFormat) {
  const auto error = [](const std::string& name, std::size_t length) {
    return error_of(Exit::data, [&] { decode(content(name).substr(0, length)); });
  };
  EXPECT_EQ(error("rgb.jpg", 700), "the JPEG data is damaged or cut short: it has no end marker");
  EXPECT_EQ(error("rgb.png", 200), "the PNG data is damaged or cut short: it has no end chunk");
  EXPECT_EQ(error("rgb.bmp", 200),
            "the BMP data is damaged or cut short: it ends before its last pixel");
  EXPECT_EQ(error("rgb.webp", 99),
            "the WebP data is damaged or cut short: it is shorter than its header says");
  EXPECT_EQ(error("big_endian.tif", 200),
            "the TIFF data is damaged or cut short: it ends before its last pixel");
  EXPECT_EQ(error("rgb.ppm", 99),
            "the PNM data is damaged or cut short: it ends before its last pixel");
}

TEST(Damage, ChangedBytesNeverCrash) {
  for (const std::string name : {"progressive.jpg", "rgb.jpg", "cmyk.jpg", "rgb.ppm", "text.pbm"}) {
    const std::string whole = content(name);
    for (std::size_t at = 2; at < whole.size(); at += 3) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x5A);
      DecodeOptions options;
      options.max_pixels = 1 << 20;
      try {
        decode(damaged, options);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data);
      }
    }
  }
}

// OpenCV leaves the rest of a strip black and says nothing.
TEST(Damage, ADamagedTiffStripIsAnError) {
  if (!reads_png()) GTEST_SKIP() << "there is no images module here";
  const std::string whole = content("lzw.tif");
  int noticed = 0;
  for (std::size_t at = 8; at + 8 < whole.size(); at += 8) {
    std::string damaged = whole;
    damaged.replace(at, 8, 8, '\xFF');
    try {
      decode(damaged);
    } catch (const Error& error) {
      noticed += std::string(error.what()).starts_with("the TIFF data is damaged: ") ? 1 : 0;
    }
  }
  EXPECT_GT(noticed, 0);
}

TEST(Damage, DataThatEndsBeforeTheEndMarkerIsAnError) {
  const std::string whole = content("regions_420.jpg");
  const std::string middle = whole.substr(0, whole.size() / 2) + "\xFF\xD9";
  EXPECT_THAT(error_of(Exit::data, [&] { decode(middle); }),
              StartsWith("the JPEG data is damaged or cut short: "));
}

TEST(Damage, ATruncatedJpegIsAnErrorWhateverTheRegion) {
  const std::string whole = content("regions_420.jpg");
  const std::string cut = whole.substr(0, whole.size() - 40);
  Decoder decoder{DecodeOptions{}};
  Image image;
  decoder.open(bytes_of(cut));
  EXPECT_THAT(error_of(Exit::data,
                       [&] {
                         decoder.read({0, 0, 8, 8}, 1, image);
                       }),
              HasSubstr("no end marker"));
  // The decoder can be used again.
  decoder.open(bytes_of(whole));
  decoder.read({0, 0, 77, 123}, 1, image);
  EXPECT_EQ(image.pixels, decode(whole).pixels);
}

TEST(Damage, AnEndMarkerOfAThumbnailIsNotThePictures) {
  const std::string whole = content("rgb.jpg");
  const std::string thumbnail("\xFF\xE1\x00\x08 \xFF\xD9..", 10);
  const std::string with = whole.substr(0, 2) + thumbnail + whole.substr(2);
  EXPECT_EQ(decode(with).pixels, decode(whole).pixels);
  EXPECT_THAT(error_of(Exit::data, [&] { decode(with.substr(0, with.size() - 2)); }),
              HasSubstr("no end marker"));
}

TEST(Damage, WhatFollowsTheEndMarkerIsIgnored) {
  const std::string whole = content("rgb.jpg");
  const Image wanted = decode(whole);
  EXPECT_EQ(decode(whole + std::string(100000, '\0')).pixels, wanted.pixels);
  EXPECT_EQ(decode(whole + "a film of the same moment \xFF\xC4").pixels, wanted.pixels);
}

// Regions

class Regions : public ::testing::TestWithParam<std::string> {};

// [0, below)
int draw(std::mt19937& random, int below) {
  return static_cast<int>(random() % static_cast<unsigned>(below));
}

Rectangle draw_region(std::mt19937& random, const ImageInfo& info) {
  Rectangle region;
  region.top = draw(random, info.height);
  region.left = draw(random, info.width);
  region.height = 1 + draw(random, info.height - region.top);
  region.width = 1 + draw(random, info.width - region.left);
  return region;
}

bool equals_part(const Image& image, const Part& part, const Image& whole) {
  const auto row = static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.channels);
  for (int y = 0; y < image.height; ++y) {
    const std::size_t from =
        (static_cast<std::size_t>(part.top + y) * static_cast<std::size_t>(whole.width) +
         static_cast<std::size_t>(part.left)) *
        static_cast<std::size_t>(whole.channels);
    const auto begin =
        image.pixels.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(y) * row);
    if (!std::equal(begin, begin + static_cast<std::ptrdiff_t>(row),
                    whole.pixels.begin() + static_cast<std::ptrdiff_t>(from)))
      return false;
  }
  return true;
}

void expect_regions(const std::string& bytes, const DecodeOptions& options, int shrink, int count) {
  Decoder decoder(options);
  const ImageInfo info = decoder.open(bytes_of(bytes));
  Image whole;
  const Part all = decoder.read({0, 0, info.height, info.width}, shrink, whole);
  ASSERT_EQ(all.height, (info.height + shrink - 1) / shrink);
  ASSERT_EQ(all.width, (info.width + shrink - 1) / shrink);
  ASSERT_EQ(whole.height, all.height);
  ASSERT_EQ(whole.width, all.width);
  std::mt19937 random(5);
  Image image;
  for (int i = 0; i < count; ++i) {
    const Rectangle region = draw_region(random, info);
    const Part part = decoder.read(region, shrink, image);
    SCOPED_TRACE(::testing::Message()
                 << "shrink " << shrink << ", region " << region.top << " " << region.left << " "
                 << region.height << " " << region.width);
    ASSERT_EQ(part.height, all.height);
    ASSERT_EQ(part.width, all.width);
    ASSERT_LE(part.top * shrink, region.top);
    ASSERT_LE(part.left * shrink, region.left);
    ASSERT_GE((part.top + image.height) * shrink, region.top + region.height);
    ASSERT_GE((part.left + image.width) * shrink, region.left + region.width);
    ASSERT_TRUE(equals_part(image, part, whole));
  }
}

TEST_P(Regions, EqualTheWholePictureToTheBit) {
  const std::string bytes = content(GetParam());
  for (const int channels : {3, 1}) {
    DecodeOptions options;
    options.channels = channels;
    for (const int shrink : {1, 2, 4, 8})
      expect_regions(bytes, options, shrink, channels == 3 ? 300 : 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Jpeg, Regions,
                         ::testing::Values("regions_444.jpg", "regions_422.jpg", "regions_420.jpg",
                                           "regions_440.jpg", "regions_411.jpg", "regions_grey.jpg",
                                           "regions_progressive.jpg", "regions_cmyk.jpg"));

TEST(Region, OfOrientedPicturesEqualTheWhole) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string bytes = content("orientation" + std::to_string(orientation) + ".jpg");
    for (const int shrink : {1, 2, 4, 8}) expect_regions(bytes, {}, shrink, 100);
  }
}

TEST(Region, OfAVeryWidePicture) {
  for (const int shrink : {1, 8}) expect_regions(content("regions_wide.jpg"), {}, shrink, 20);
}

// Coefficients that the last scans would refine are guessed from the blocks around.
TEST(Region, OfAProgressivePictureWithoutItsLastScans) {
  const std::string whole = content("regions_progressive.jpg");
  std::string few = whole.substr(0, whole.rfind("\xFF\xDA"));
  for (int scans = 0; scans < 5; ++scans) few = few.substr(0, few.rfind("\xFF\xDA"));
  few = few.substr(0, few.rfind("\xFF\xC4")) + "\xFF\xD9";
  for (const int shrink : {1, 2, 4, 8}) expect_regions(few, {}, shrink, 100);
}

TEST(Region, IsExactlyWhatWasAskedFor) {
  Decoder decoder{DecodeOptions{}};
  const std::string bytes = content("regions_420.jpg");
  decoder.open(bytes_of(bytes));
  Image image;
  Part part = decoder.read({20, 33, 7, 50}, 1, image);
  EXPECT_EQ((Rectangle{part.top, part.left, image.height, image.width}),
            (Rectangle{20, 33, 7, 50}));
  part = decoder.read({20, 33, 7, 50}, 4, image);
  EXPECT_EQ((Rectangle{part.top, part.left, image.height, image.width}), (Rectangle{5, 8, 2, 13}));
  EXPECT_EQ(part.shrink, 4);
}

TEST(Region, OfOtherFormatsIsTheWhole) {
  Decoder decoder{DecodeOptions{}};
  const std::string bytes = content("rgb.ppm");
  decoder.open(bytes_of(bytes));
  Image image;
  const Part part = decoder.read({2, 3, 4, 5}, 4, image);
  EXPECT_EQ((std::array{part.top, part.left, part.shrink, part.height, part.width}),
            (std::array{0, 0, 1, 11, 13}));
  EXPECT_EQ(image.pixels, decode(bytes).pixels);
}

// EXIF

TEST(Exif, MalformedBlocksAreUpright) {
  const auto orientation = [](const std::string& text) { return exif_orientation(bytes_of(text)); };
  const std::string head("Exif\0\0II*\0\x08\0\0\0\x01\0", 16);
  EXPECT_EQ(orientation(head + std::string("\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 12)), 6);
  EXPECT_EQ(orientation(head + std::string("\x12\x01\x03\0\x01\0\0\0\x09\0\0\0", 12)), 1);
  EXPECT_EQ(orientation(head), 1);
  EXPECT_EQ(orientation(""), 1);
  EXPECT_EQ(orientation("Exif"), 1);
  EXPECT_EQ(orientation(std::string("Exif\0\0II*\0\xFF\xFF\xFF\xFF", 14)), 1);
}

TEST(Exif, RectanglesTurnAsPicturesDo) {
  const int height = 5;
  const int width = 7;
  for (int orientation = 1; orientation <= 8; ++orientation) {
    Image stored{height, width, 1, {}};
    for (int i = 0; i < height * width; ++i) stored.pixels.push_back(static_cast<std::uint8_t>(i));
    if (swaps_sides(orientation)) std::swap(stored.height, stored.width);
    const int columns = stored.width;
    apply_orientation(orientation, stored);
    const Rectangle one = stored_rectangle({3, 4, 1, 1}, orientation, height, width);
    EXPECT_EQ(stored.pixels[3 * width + 4], one.top * columns + one.left) << orientation;
  }
}

}  // namespace
}  // namespace trainer::data

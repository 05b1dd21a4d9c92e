#include "data/images/resample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "data/images/resample_simd.h"

namespace trainer::data {
namespace {

using Pixels = std::vector<std::uint8_t>;

// The same to the bit as in tests/oracle/resample.py.
Image picture(int height, int width, int channels) {
  Image image;
  image.height = height;
  image.width = width;
  image.channels = channels;
  image.pixels.resize(static_cast<std::size_t>(height * width * channels));
  std::uint32_t index = 0;
  for (std::uint8_t& pixel : image.pixels) {
    std::uint32_t value = ++index * 0x9E3779B1U;
    value = (value ^ (value >> 15)) * 0x85EBCA77U;
    pixel = static_cast<std::uint8_t>(value >> 24);
  }
  return image;
}

Resampling whole(const Box& box, int height, int width,
                 config::Interpolation interpolation = config::Interpolation::bilinear) {
  Resampling how;
  how.box = box;
  how.height = height;
  how.width = width;
  how.window = {0, 0, height, width};
  how.interpolation = interpolation;
  return how;
}

// The result; the bytes around it must stay as they are.
Pixels resampled(const ImageView& from, const Resampling& how, Instructions instructions) {
  constexpr std::size_t guard = 64;
  const auto size = static_cast<std::size_t>(how.window.height * how.window.width * from.channels);
  Pixels memory(size + 2 * guard, 0xA5);
  resample(from, how, memory.data() + guard, instructions);
  const auto untouched = [](std::uint8_t byte) { return byte == 0xA5; };
  EXPECT_TRUE(std::all_of(memory.begin(), memory.begin() + guard, untouched));
  EXPECT_TRUE(std::all_of(memory.end() - guard, memory.end(), untouched));
  return {memory.begin() + guard, memory.end() - guard};
}

// `rectangle` of an image with `channels`, in memory without a byte more.
Pixels part(const ImageView& image, const Rectangle& rectangle) {
  Pixels pixels;
  for (int y = 0; y < rectangle.height; ++y) {
    const std::uint8_t* row =
        image.pixels + static_cast<std::size_t>(rectangle.top + y) * image.stride;
    pixels.insert(pixels.end(), row + rectangle.left * image.channels,
                  row + (rectangle.left + rectangle.width) * image.channels);
  }
  return pixels;
}

Pixels mirrored(const Pixels& pixels, int height, int width, int channels) {
  Pixels result;
  for (int y = 0; y < height; ++y)
    for (int x = width - 1; x >= 0; --x)
      for (int channel = 0; channel < channels; ++channel)
        result.push_back(pixels[static_cast<std::size_t>((y * width + x) * channels + channel)]);
  return result;
}

std::string hex(const Pixels& pixels) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t pixel : pixels) {
    text += digits[pixel >> 4];
    text += digits[pixel & 15];
  }
  return text;
}

std::string fnv1a(const Pixels& pixels) {
  std::uint64_t value = 0xCBF29CE484222325ULL;
  for (const std::uint8_t pixel : pixels) value = (value ^ pixel) * 0x100000001B3ULL;
  Pixels bytes;
  for (int shift = 56; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  return hex(bytes);
}

std::string described(const Resampling& how, const Image& image) {
  const auto text = [](auto... values) { return ((std::to_string(values) + " ") + ...); };
  return text(image.height, image.width, image.channels) + "box " +
         text(how.box.top, how.box.left, how.box.height, how.box.width) + "to " +
         text(how.height, how.width) + "window " +
         text(how.window.top, how.window.left, how.window.height, how.window.width) +
         (how.interpolation == config::Interpolation::bilinear ? "bilinear" : "bicubic") +
         (how.mirror ? " mirror" : "");
}

class Resample : public testing::TestWithParam<Instructions> {
 protected:
  void SetUp() override {
    if (!available(GetParam())) GTEST_SKIP() << "this machine has no such instructions";
  }
};

INSTANTIATE_TEST_SUITE_P(Each, Resample,
                         testing::Values(Instructions::portable, Instructions::avx2),
                         [](const auto& one) {
                           return one.param == Instructions::avx2 ? "avx2" : "portable";
                         });

// A resampling of a picture, both chosen by chance.
struct Chance {
  explicit Chance(unsigned seed) : random(seed) {}

  int up_to(int most) { return static_cast<int>(random() % static_cast<unsigned>(most + 1)); }

  Image image() { return picture(1 + up_to(70), 1 + up_to(70), up_to(1) == 0 ? 1 : 3); }

  Resampling resampling(const Image& image) {
    Resampling how =
        whole({}, 1 + up_to(60), 1 + up_to(60),
              up_to(1) == 0 ? config::Interpolation::bilinear : config::Interpolation::bicubic);
    side(image.height, how.height, how.box.top, how.box.height);
    side(image.width, how.width, how.box.left, how.box.width);
    how.window.top = up_to(how.height - 1);
    how.window.left = up_to(how.width - 1);
    how.window.height = 1 + up_to(how.height - how.window.top - 1);
    how.window.width = 1 + up_to(how.width - how.window.left - 1);
    how.mirror = up_to(1) == 0;
    return how;
  }

 private:
  // In eighths, or whole, or such that nothing changes.
  void side(int extent, int& size, double& start, double& length) {
    const int unit = up_to(1) == 0 ? 8 : 1;
    const int first = up_to(extent * unit - 1);
    start = static_cast<double>(first) / unit;
    length = static_cast<double>(1 + up_to(extent * unit - first - 1)) / unit;
    if (unit == 1 && up_to(3) == 0) size = static_cast<int>(length);
  }

  std::mt19937 random;
};

TEST_P(Resample, EqualsPillow) {
  const nlohmann::json golden = nlohmann::json::parse(std::ifstream("data/golden/resample.json"));
  for (const auto& one : golden) {
    const auto& box = one.at("box");
    const Image image = picture(one.at("picture")[0], one.at("picture")[1], one.at("channels"));
    const Resampling how =
        whole({box[0], box[1], box[2], box[3]}, one.at("size")[0], one.at("size")[1],
              one.at("interpolation") == "bilinear" ? config::Interpolation::bilinear
                                                    : config::Interpolation::bicubic);
    const Pixels got = resampled(view_of(image), how, GetParam());
    if (one.contains("pixels"))
      EXPECT_EQ(hex(got), one.at("pixels").get<std::string>()) << described(how, image);
    else
      EXPECT_EQ(fnv1a(got), one.at("hash").get<std::string>()) << described(how, image);
  }
}

TEST_P(Resample, MakesTheWindowOfTheWhole) {
  Chance chance(1);
  for (int i = 0; i < 300; ++i) {
    const Image image = chance.image();
    const Resampling how = chance.resampling(image);
    const Pixels all = resampled(
        view_of(image), whole(how.box, how.height, how.width, how.interpolation), GetParam());
    Pixels wanted = part({all.data(), 0, 0, how.height, how.width, image.channels,
                          static_cast<std::size_t>(how.width * image.channels)},
                         how.window);
    if (how.mirror) wanted = mirrored(wanted, how.window.height, how.window.width, image.channels);
    ASSERT_EQ(resampled(view_of(image), how, GetParam()), wanted) << described(how, image);
  }
}

// The part that is needed lies in memory of its own, without a byte around it: under the address
// sanitizer, reading anything else fails.
TEST_P(Resample, ReadsOnlyWhatIsNeeded) {
  Chance chance(2);
  for (int i = 0; i < 300; ++i) {
    const Image image = chance.image();
    const Resampling how = chance.resampling(image);
    const Rectangle inputs = needed(how);
    ASSERT_GE(inputs.top, std::floor(how.box.top));
    ASSERT_GE(inputs.left, std::floor(how.box.left));
    ASSERT_LE(inputs.top + inputs.height, std::ceil(how.box.top + how.box.height));
    ASSERT_LE(inputs.left + inputs.width, std::ceil(how.box.left + how.box.width));
    const Pixels pixels = part(view_of(image), inputs);
    const ImageView view = {pixels.data(),
                            inputs.top,
                            inputs.left,
                            inputs.height,
                            inputs.width,
                            image.channels,
                            static_cast<std::size_t>(inputs.width * image.channels)};
    ASSERT_EQ(resampled(view, how, GetParam()), resampled(view_of(image), how, GetParam()))
        << described(how, image);
  }
}

TEST_P(Resample, IgnoresWhatIsNotNeeded) {
  Chance chance(3);
  for (int i = 0; i < 300; ++i) {
    const Image image = chance.image();
    const Resampling how = chance.resampling(image);
    const Rectangle inputs = needed(how);
    Image poisoned = image;
    std::size_t at = 0;
    for (int y = 0; y < image.height; ++y) {
      for (int x = 0; x < image.width * image.channels; ++x, ++at) {
        const int column = x / image.channels;
        if (y < inputs.top || y >= inputs.top + inputs.height || column < inputs.left ||
            column >= inputs.left + inputs.width)
          poisoned.pixels[at] = static_cast<std::uint8_t>(~poisoned.pixels[at]);
      }
    }
    ASSERT_EQ(resampled(view_of(poisoned), how, GetParam()),
              resampled(view_of(image), how, GetParam()))
        << described(how, image);
  }
}

TEST_P(Resample, CopiesWhereNothingChanges) {
  for (const int channels : {1, 3}) {
    const Image image = picture(20, 30, channels);
    Resampling how = whole({3, 4, 12, 17}, 12, 17, config::Interpolation::bicubic);
    how.window = {2, 1, 9, 13};
    const Pixels wanted = part(view_of(image), {5, 5, 9, 13});
    EXPECT_EQ(resampled(view_of(image), how, GetParam()), wanted);
    how.mirror = true;
    EXPECT_EQ(resampled(view_of(image), how, GetParam()), mirrored(wanted, 9, 13, channels));
  }
}

TEST_P(Resample, TakesAViewFromTheMiddleOfAPicture) {
  const Image image = picture(40, 50, 3);
  Resampling how = whole({10, 12, 20, 25}, 13, 15);
  Image lower = picture(40, 50, 3);
  lower.pixels = part(view_of(image), {8, 11, 25, 30});
  lower.height = 25;
  lower.width = 30;
  EXPECT_EQ(resampled(view_of(lower, 8, 11), how, GetParam()),
            resampled(view_of(image), how, GetParam()));
}

TEST_P(Resample, MakesNothingOfAnEmptyWindow) {
  const Image image = picture(8, 8, 3);
  Resampling how = whole({0, 0, 8, 8}, 4, 4);
  how.window = {};
  EXPECT_EQ(needed(how), Rectangle{});
  EXPECT_TRUE(resampled(view_of(image), how, GetParam()).empty());
}

TEST(ResampleInstructions, AgreeToTheBit) {
  if (!available(Instructions::avx2)) GTEST_SKIP() << "this machine has no AVX2";
  Chance chance(4);
  for (int i = 0; i < 600; ++i) {
    const Image image = chance.image();
    const Resampling how = chance.resampling(image);
    const Pixels wanted = resampled(view_of(image), how, Instructions::portable);
    ASSERT_EQ(resampled(view_of(image), how, Instructions::avx2), wanted) << described(how, image);
    Pixels chosen(wanted.size());
    resample(view_of(image), how, chosen.data());
    ASSERT_EQ(chosen, wanted) << described(how, image);
  }
}

// White stays white, and the sums of thousands of products wrap around on the way.
TEST_P(Resample, KeepsWhiteWithManyTaps) {
  const Pixels white(60000, 255);
  for (const bool tall : {false, true}) {
    const ImageView view = {white.data(),      0, 0, tall ? 20000 : 1, tall ? 1 : 20000, 3,
                            tall ? 3U : 60000U};
    const Resampling how = tall ? whole({0, 0, 20000, 1}, 2, 16) : whole({0, 0, 1, 20000}, 1, 4);
    for (const std::uint8_t pixel : resampled(view, how, GetParam())) ASSERT_EQ(pixel, 255);
  }
}

TEST(Needed, IsWhatTheFilterReaches) {
  // Halving, the bilinear filter reaches 2 pixels to each side of its centre 2 i + 1; pixels whose
  // weight is 0 (those whose own centres lie at its ends) do not occur.
  Resampling how = whole({0, 0, 100, 200}, 50, 100);
  EXPECT_EQ(needed(how), (Rectangle{0, 0, 100, 200}));
  how.window = {10, 20, 5, 8};
  EXPECT_EQ(needed(how), (Rectangle{19, 39, 12, 18}));
  how.box = {7, 9, 100, 200};
  EXPECT_EQ(needed(how), (Rectangle{26, 48, 12, 18}));
  how.mirror = true;  // does not move the window
  EXPECT_EQ(needed(how), (Rectangle{26, 48, 12, 18}));
  how.interpolation = config::Interpolation::bicubic;
  EXPECT_EQ(needed(how), (Rectangle{24, 46, 16, 22}));
}

TEST(Needed, IsTheWindowWhereNothingChanges) {
  Resampling how = whole({7, 9, 30, 40}, 30, 20);
  how.window = {3, 0, 11, 20};
  EXPECT_EQ(needed(how), (Rectangle{10, 9, 11, 40}));
}

TEST(Needed, StaysInTheWholeRectangleAroundTheBox) {
  EXPECT_EQ(needed(whole({3.5, 7.25, 20.25, 33.75}, 17, 26)), (Rectangle{3, 7, 21, 34}));
  EXPECT_EQ(needed(whole({3.5, 7.25, 20.25, 33.75}, 60, 80)), (Rectangle{3, 7, 21, 34}));
}

}  // namespace
}  // namespace trainer::data

#include "data/images/transforms.h"

#include <gmock/gmock.h>

#include <set>

#include "data/images/colour.h"
#include "data/images/resample.h"
#include "support.h"

namespace trainer::data {
namespace {

using ::testing::HasSubstr;

Stream stream(std::uint64_t sample) { return {1, StreamUse::augmentation, 0, sample}; }

struct Result {
  Image image;
  Rectangle erased;
};

Result run(const std::vector<config::Transform>& transforms, const Image& image,
           std::uint64_t sample = 0) {
  const Pipeline pipeline(transforms, image.channels);
  Stream random = stream(sample);
  SamplePlan plan;
  pipeline.plan(image.height, image.width, random, plan);
  Image made{plan.final_height, plan.final_width, image.channels, {}};
  made.pixels.resize(static_cast<std::size_t>(made.height) * static_cast<std::size_t>(made.width) *
                     static_cast<std::size_t>(made.channels));
  PixelScratch scratch;
  make(plan, view_of(image), scratch, made.pixels.data());
  return {std::move(made), plan.erase};
}

Image golden_image(const std::string& name) { return image_of(golden().at("images").at(name)); }

// Each pixel tells where it stood.
Image positions(int height, int width) {
  Image image{height, width, 3, {}};
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (const int value : {y, x, 1}) image.pixels.push_back(static_cast<std::uint8_t>(value));
  return image;
}

TEST(Transforms, ResizeEqualsPillow) {
  for (const auto& one : golden().at("resize")) {
    config::Resize resize;
    resize.size = one.at("size").get<std::int64_t>();
    resize.interpolation = one.at("interpolation") == "bilinear" ? config::Interpolation::bilinear
                                                                 : config::Interpolation::bicubic;
    expect_near(run({resize}, golden_image(one.at("image"))).image, image_of(one.at("result")), 0,
                one.at("image").get<std::string>() + " to " + std::to_string(resize.size) + ", " +
                    one.at("interpolation").get<std::string>());
  }
}

TEST(Transforms, CenterCropEqualsTorchvision) {
  for (const auto& one : golden().at("center_crop")) {
    const config::CenterCrop crop{one.at("size").get<std::int64_t>()};
    expect_near(run({crop}, golden_image(one.at("image"))).image, image_of(one.at("result")), 0,
                "center_crop to " + std::to_string(crop.size));
  }
}

TEST(Transforms, ColourAdjustmentsEqualTorchvision) {
  for (const auto& one : golden().at("adjust")) {
    const std::string kind = one.at("kind");
    const auto factor = one.at("factor").get<double>();
    Image image = golden_image("noise");
    if (kind == "brightness") adjust_brightness(image, factor);
    if (kind == "contrast") adjust_contrast(image, factor);
    if (kind == "saturation") adjust_saturation(image, factor);
    if (kind == "hue") adjust_hue(image, factor);
    expect_near(image, image_of(one.at("result")), 0, kind + " by " + std::to_string(factor));
  }
}

TEST(Transforms, RandomCropWithoutRoomChangesNothing) {
  const Image image = positions(9, 9);
  EXPECT_EQ(run({config::RandomCrop{9, 0}}, image).image.pixels, image.pixels);
}

TEST(Transforms, RandomCropReachesEveryPlaceAndPadsWithBlack) {
  std::set<std::pair<int, int>> places;
  for (std::uint64_t sample = 0; sample < 400; ++sample) {
    const Image image = run({config::RandomCrop{6, 2}}, positions(6, 6), sample).image;
    ASSERT_EQ(image.height, 6);
    ASSERT_EQ(image.width, 6);
    // The pixel in the middle is always inside: it tells the offset.
    const std::size_t middle = (3 * 6 + 3) * 3;
    const int top = image.pixels[middle] - 3;
    const int left = image.pixels[middle + 1] - 3;
    places.insert({top, left});
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 6; ++x) {
        const bool inside = y + top >= 0 && y + top < 6 && x + left >= 0 && x + left < 6;
        const std::size_t at = static_cast<std::size_t>(y * 6 + x) * 3;
        ASSERT_EQ(image.pixels[at + 2], inside ? 1 : 0);
        ASSERT_EQ(image.pixels[at], inside ? y + top : 0);
        ASSERT_EQ(image.pixels[at + 1], inside ? x + left : 0);
      }
    }
  }
  EXPECT_EQ(places.size(), 25U);
}

TEST(Transforms, RandomCropNamesAnImageThatIsTooSmall) {
  EXPECT_THAT(error_of(Exit::data,
                       [] {
                         run({config::RandomCrop{8, 0}}, positions(7, 20));
                       }),
              HasSubstr("random_crop needs 8x8 pixels, but the image has 7x20"));
}

TEST(Transforms, RandomResizedCropOfAllIsAResize) {
  const Image image = golden_image("rgb");
  config::RandomResizedCrop crop;
  crop.size = 16;
  crop.scale = {1.0, 1.0};
  crop.ratio = {53.0 / 37.0, 53.0 / 37.0};
  std::vector<std::uint8_t> wanted(16 * 16 * 3);
  resample(view_of(image), {{0, 0, 37, 53}, 16, 16, {0, 0, 16, 16}}, wanted.data());
  EXPECT_EQ(run({crop}, image).image.pixels, wanted);
}

TEST(Transforms, RandomResizedCropFallsBackToTheMiddle) {
  const Image image = positions(10, 40);  // far wider than the ratios allow
  config::RandomResizedCrop crop;
  crop.size = 10;
  crop.scale = {1.0, 1.0};
  crop.ratio = {0.9, 1.0};
  const Image result = run({crop}, image).image;
  EXPECT_EQ(result.pixels[1], 15);  // the left column of the 10 in the middle
}

TEST(Transforms, RandomResizedCropDrawsAreasAndRatiosInBounds) {
  config::RandomResizedCrop crop;
  crop.size = 64;
  double least = 1;
  double most = 0;
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    const Image result = run({crop}, positions(64, 64), sample).image;
    const int left = result.pixels[1];
    const int right = result.pixels[63 * 3 + 1];
    const int top = result.pixels[0];
    const int bottom = result.pixels[std::size_t{63} * 64 * 3];
    const double area = (right - left + 1) * (bottom - top + 1) / 4096.0;
    least = std::min(least, area);
    most = std::max(most, area);
  }
  EXPECT_GT(least, 0.05);
  EXPECT_LT(least, 0.15);
  EXPECT_GT(most, 0.8);
}

TEST(Transforms, HorizontalFlipMirrorsHalfOfTheImages) {
  int flipped = 0;
  for (std::uint64_t sample = 0; sample < 1000; ++sample) {
    const Image image = run({config::HorizontalFlip{}}, positions(2, 5), sample).image;
    flipped += image.pixels[1] == 4 ? 1 : 0;
    ASSERT_EQ(image.pixels[2 * 3 + 1], 2);
  }
  EXPECT_NEAR(flipped, 500, 60);
  EXPECT_EQ(run({config::HorizontalFlip{0}}, positions(2, 5)).image.pixels[1], 0);
  EXPECT_EQ(run({config::HorizontalFlip{1}}, positions(2, 5)).image.pixels[1], 4);
}

TEST(Transforms, ColorJitterOfNothingChangesNothing) {
  const Image image = golden_image("noise");
  EXPECT_EQ(run({config::ColorJitter{}}, image).image.pixels, image.pixels);
}

TEST(Transforms, ColorJitterBrightnessStaysInItsRange) {
  Image image{1, 1, 3, {100, 100, 100}};
  int least = 255;
  int most = 0;
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    config::ColorJitter jitter;
    jitter.brightness = 0.4;
    const int value = run({jitter}, image, sample).image.pixels[0];
    least = std::min(least, value);
    most = std::max(most, value);
  }
  EXPECT_GE(least, 60);
  EXPECT_LE(least, 62);
  EXPECT_LE(most, 140);
  EXPECT_GE(most, 138);
}

// Note [Draws] in transforms.cpp: what one transform decides never shifts the next one's numbers.
TEST(Transforms, DrawsDoNotDependOnTheImage) {
  const std::vector<config::Transform> transforms{config::RandomResizedCrop{.size = 8},
                                                  config::HorizontalFlip{},
                                                  config::ColorJitter{0.4, 0.4, 0.4, 0.1},
                                                  config::RandAugment{},
                                                  config::TrivialAugment{},
                                                  config::Normalize{{0.5}, {0.5}},
                                                  config::RandomErasing{}};
  const auto next_after = [&](int height, int width) {
    const Pipeline pipeline(transforms, 3);
    Stream random = stream(5);
    SamplePlan plan;
    pipeline.plan(height, width, random, plan);
    return random.next_u64();
  };
  EXPECT_EQ(next_after(20, 20), next_after(5, 200));
}

TEST(Transforms, RandomErasingChoosesRectanglesInside) {
  const std::vector<config::Transform> transforms{config::Normalize{{0.5}, {0.5}},
                                                  config::RandomErasing{}};
  int erased = 0;
  for (std::uint64_t sample = 0; sample < 500; ++sample) {
    const Rectangle box = run(transforms, positions(30, 40), sample).erased;
    if (box.height == 0) continue;
    ++erased;
    EXPECT_GE(box.top, 0);
    EXPECT_GE(box.left, 0);
    EXPECT_LE(box.top + box.height, 30);
    EXPECT_LE(box.left + box.width, 40);
    const double area = box.height * box.width / 1200.0;
    EXPECT_GT(area, 0.01);
    EXPECT_LT(area, 0.36);
  }
  EXPECT_NEAR(erased, 250, 50);
}

TEST(Transforms, TheOutputSizeIsKnownAfterACrop) {
  const auto size = [](const std::vector<config::Transform>& transforms) {
    return Pipeline(transforms, 3).output_size();
  };
  EXPECT_FALSE(size({}).has_value());
  EXPECT_FALSE(size({config::Resize{256}}).has_value());
  EXPECT_EQ(size({config::Resize{256}, config::CenterCrop{224}}), std::make_pair(224, 224));
  EXPECT_EQ(size({config::CenterCrop{224}, config::Resize{64}}), std::make_pair(64, 64));
  EXPECT_EQ(size({config::RandomCrop{32, 4}, config::HorizontalFlip{}}), std::make_pair(32, 32));
}

TEST(Transforms, NormalisationComesByChannel) {
  const Pipeline none({}, 3);
  EXPECT_THAT(none.normalisation().mean, ::testing::ElementsAre(0.0F, 0.0F, 0.0F));
  EXPECT_THAT(none.normalisation().std, ::testing::ElementsAre(1.0F, 1.0F, 1.0F));
  const Pipeline one({config::Normalize{{0.5}, {0.25}}}, 3);
  EXPECT_THAT(one.normalisation().mean, ::testing::ElementsAre(0.5F, 0.5F, 0.5F));
  EXPECT_FALSE(one.erases());
}

TEST(Transforms, ListsThatMakeNoSenseAreConfigurationErrors) {
  const config::Normalize normalize{{0.5}, {0.5}};
  const auto error = [](const std::vector<config::Transform>& transforms) {
    return error_of(Exit::config, [&] { Pipeline(transforms, 3); });
  };
  EXPECT_THAT(error({normalize, normalize}), HasSubstr("normalize stands there twice"));
  EXPECT_THAT(error({config::RandomErasing{}, normalize}),
              HasSubstr("random_erasing stands before normalize"));
  EXPECT_THAT(error({normalize, config::HorizontalFlip{}}),
              HasSubstr("only random_erasing may follow normalize"));
  EXPECT_THAT(error({normalize, config::RandomErasing{}, config::RandomErasing{}}),
              HasSubstr("random_erasing stands there twice"));
  EXPECT_THAT(error({config::Normalize{{0.1, 0.2}, {1, 1}}}),
              HasSubstr("normalize.mean has 2 values, but the images have 3 channels"));
  EXPECT_THAT(error({config::Normalize{{0.1}, {0}}}), HasSubstr("must be positive"));
}

}  // namespace
}  // namespace trainer::data

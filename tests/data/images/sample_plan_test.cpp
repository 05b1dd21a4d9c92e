#include "data/images/sample_plan.h"

#include <gtest/gtest.h>

#include "core/random.h"
#include "data/images/colour.h"
#include "data/images/geometry.h"
#include "support.h"

namespace trainer::data {
namespace {

Image noise(int height, int width, int channels, std::uint64_t seed) {
  Stream random(seed, StreamUse::synthetic, 0, 0);
  Image image{height, width, channels, {}};
  for (int i = 0; i < height * width * channels; ++i)
    image.pixels.push_back(static_cast<std::uint8_t>(random.below(256)));
  return image;
}

Image made(const SamplePlan& plan, const Image& picture) {
  Image image{plan.final_height, plan.final_width, picture.channels, {}};
  image.pixels.resize(static_cast<std::size_t>(image.height) *
                      static_cast<std::size_t>(image.width) *
                      static_cast<std::size_t>(image.channels));
  PixelScratch scratch;
  make(plan, view_of(picture), scratch, image.pixels.data());
  return image;
}

// One operation after the other, each on a whole image.
class StepByStep {
 public:
  explicit StepByStep(Image image) : image_(std::move(image)) {}
  void resize(const Rectangle& box, int height, int width) {
    Image cut;
    data::crop(image_, box.top, box.left, box.height, box.width, cut);
    Image to{height, width, image_.channels, {}};
    to.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                     static_cast<std::size_t>(image_.channels));
    resample(view_of(cut),
             {{0, 0, static_cast<double>(box.height), static_cast<double>(box.width)},
              height,
              width,
              {0, 0, height, width}},
             to.pixels.data());
    image_ = to;
  }
  void crop(const Rectangle& window) {
    Image to;
    data::crop(image_, window.top, window.left, window.height, window.width, to);
    image_ = to;
  }
  void mirror() { flip_horizontally(image_); }
  void brighten() { adjust_brightness(image_, 1.25); }
  const Image& image() const { return image_; }

 private:
  Image image_;
};

Jitter brighter() {
  Jitter jitter;
  jitter.factors[0] = 1.25;
  return jitter;
}

int between(Stream& random, int low, int high) {
  return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

// A random list of operations, planned and done one by one.
void compare(std::uint64_t seed) {
  Stream random(seed, StreamUse::augmentation, 0, 0);
  const Image picture =
      noise(between(random, 1, 40), between(random, 1, 40), random.below(2) == 0 ? 1 : 3, seed);
  SamplePlan plan;
  PlanBuilder builder(picture.height, picture.width, plan);
  StepByStep wanted(picture);
  const int count = between(random, 1, 5);
  for (int i = 0; i < count; ++i) {
    const int height = wanted.image().height;
    const int width = wanted.image().width;
    ASSERT_EQ(builder.height(), height);
    ASSERT_EQ(builder.width(), width);
    switch (random.below(4)) {
      case 0: {
        const int top = between(random, 0, height - 1);
        const int left = between(random, 0, width - 1);
        const Rectangle box{top, left, between(random, 1, height - top),
                            between(random, 1, width - left)};
        const int to_height = between(random, 1, 30);
        const int to_width = between(random, 1, 30);
        builder.resize(box, to_height, to_width, config::Interpolation::bilinear);
        wanted.resize(box, to_height, to_width);
        break;
      }
      case 1: {  // also beyond the image, and beside it
        const Rectangle window{between(random, -8, height), between(random, -8, width),
                               between(random, 1, 30), between(random, 1, 30)};
        builder.crop(window);
        wanted.crop(window);
        break;
      }
      case 2:
        builder.mirror();
        wanted.mirror();
        break;
      default:
        builder.jitter(brighter());
        wanted.brighten();
    }
  }
  const Image got = made(plan, picture);
  ASSERT_EQ(got.height, wanted.image().height);
  ASSERT_EQ(got.width, wanted.image().width);
  ASSERT_EQ(got.pixels, wanted.image().pixels);
}

TEST(SamplePlan, EqualsTheOperationsOneByOne) {
  for (std::uint64_t seed = 0; seed < 5000; ++seed) {
    SCOPED_TRACE(seed);
    compare(seed);
    if (HasFatalFailure()) return;
  }
}

TEST(SamplePlan, FoldsTheUsualListsIntoOnePass) {
  SamplePlan plan;
  PlanBuilder training(300, 400, plan);
  training.resize({10, 20, 200, 180}, 224, 224, config::Interpolation::bilinear);
  training.jitter(brighter());
  training.mirror();
  EXPECT_TRUE(plan.only_jitter());
  EXPECT_TRUE(plan.geometry.mirror);
  EXPECT_EQ(plan.rest.size(), 1U);
  PlanBuilder evaluation(300, 400, plan);
  evaluation.resize({0, 0, 300, 400}, 256, 341, config::Interpolation::bilinear);
  evaluation.crop({16, 58, 224, 224});
  EXPECT_TRUE(plan.rest.empty());
  EXPECT_EQ(plan.geometry.window, (Rectangle{16, 58, 224, 224}));
  EXPECT_EQ(plan.final_height, 224);
}

TEST(SamplePlan, ReductionLeavesTwiceWhatIsMade) {
  const auto of = [](double height, double width) {
    return reduction({{0, 0, height, width}, 100, 100, {0, 0, 100, 100}});
  };
  EXPECT_EQ(of(399, 1000), 1);
  EXPECT_EQ(of(400, 400), 2);
  EXPECT_EQ(of(799, 5000), 2);
  EXPECT_EQ(of(800, 800), 4);
  EXPECT_EQ(of(5000, 1601), 8);
  const Resampling half = reduced({{20, 31, 200, 210}, 100, 100, {0, 0, 100, 100}}, 2);
  EXPECT_EQ(half.box, (Box{10, 15.5, 100, 105}));
  EXPECT_EQ(half.height, 100);
}

}  // namespace
}  // namespace trainer::data

// What is to be done with one sample, all random choices made; planned from the picture's size
// alone, so that a decoder can be told what is needed before it decodes. No torch here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "data/dataset.h"
#include "data/images/augment.h"
#include "data/images/resample.h"

namespace trainer::data {

// A change of colours: the adjustments 0 brightness, 1 contrast, 2 saturation and 3 hue in `order`,
// each where its factor is set.
struct Jitter {
  std::array<int, 4> order{0, 1, 2, 3};
  std::array<std::optional<double>, 4> factors;
};
// A crop of the image so far; what lies outside of it is black.
struct Crop {
  Rectangle window;
};
struct Mirror {};
using PixelOp = std::variant<Resampling, Crop, Mirror, Jitter, Augmentation>;

struct SamplePlan {
  // First, in one pass: `geometry`, whose window lands at (top, left) of a height x width image
  // that is black elsewhere. A window without area stands for a crop that lies beside the picture.
  Resampling geometry;
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;
  std::vector<PixelOp> rest;  // then these, in order
  int final_height = 0;       // after `rest`
  int final_width = 0;
  Rectangle erase;  // of the final image; what random_erasing chose

  // Whether only changes of colour follow the geometry.
  bool only_jitter() const;
};

// Builds a plan from transforms in their order. Crops, a resize and mirrorings at the head of the
// list fold into one pass where that gives the same pixels.
class PlanBuilder {
 public:
  // For a picture of height x width; `plan` is overwritten (its memory is reused).
  PlanBuilder(int height, int width, SamplePlan& plan);

  int height() const { return plan_.final_height; }  // of the image so far
  int width() const { return plan_.final_width; }

  // `box`, within the image so far, becomes height x width pixels.
  void resize(const Rectangle& box, int height, int width, config::Interpolation interpolation);
  void crop(const Rectangle& window);
  void mirror();
  void jitter(const Jitter& jitter);
  void augment(const Augmentation& augmentation);

 private:
  void size_is(int height, int width);

  SamplePlan& plan_;
  bool resized_ = false;  // the geometry has a resize
};

// By how much a JPEG may be reduced while it is decoded: the largest of 1, 2, 4 and 8 that leaves
// `geometry`'s box at least twice as large as what is made of it. With less left, the reduction's
// own filter shows (Note [Reduction]).
int reduction(const Resampling& geometry);
// The same geometry on the picture reduced by `shrink`.
Resampling reduced(const Resampling& geometry, int shrink);

// One thread's memory for `make`.
struct PixelScratch {
  Image image;
  Image other;
};

// Makes what `plan` says of `picture`, which holds at least needed(plan.geometry), into `to`:
// final_height * final_width * channels bytes. Throws Error(out_of_memory) where an image in
// between is too large.
void make(const SamplePlan& plan, const ImageView& picture, PixelScratch& scratch,
          std::uint8_t* to);

}  // namespace trainer::data

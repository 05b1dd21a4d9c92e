// The operations of RandAugment (Cubuk et al., 2019) and TrivialAugment (Müller & Hutter, ICCV
// 2021) on 8-bit images, with the values that torchvision gets for PIL images. What is drawn, the
// caller draws: everything here is a pure function.
#pragma once

#include <array>
#include <cstdint>

#include "data/dataset.h"

namespace trainer::data {

enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize
};

// The spaces in torchvision's order, to be drawn from uniformly.
inline constexpr std::array<AugmentOp, 14> kRandAugmentOps{
    AugmentOp::identity,      AugmentOp::shear_x,   AugmentOp::shear_y,    AugmentOp::translate_x,
    AugmentOp::translate_y,   AugmentOp::rotate,    AugmentOp::brightness, AugmentOp::color,
    AugmentOp::contrast,      AugmentOp::sharpness, AugmentOp::posterize,  AugmentOp::solarize,
    AugmentOp::auto_contrast, AugmentOp::equalize};
inline constexpr std::array<AugmentOp, 14> kTrivialAugmentOps = kRandAugmentOps;

// Whether the op has two directions, so that the caller draws a sign.
constexpr bool is_signed(AugmentOp op) {
  return op >= AugmentOp::shear_x && op <= AugmentOp::sharpness;
}

// An operation with torchvision's `magnitude` for it, sign included:
//   shear_x, shear_y             pixels of shift per row or column
//   translate_x, translate_y     pixels, cut to a whole number; positive moves right or down
//   rotate                       degrees, counter-clockwise around the centre
//   brightness .. sharpness      what is added to a factor of 1; above -1
//   posterize                    bits that are kept, 1 to 8
//   solarize                     the lowest value that is inverted
// The others have none.
struct Augmentation {
  AugmentOp op = AugmentOp::identity;
  double magnitude = 0;
};

// Applies `what` to an image of 1 or 3 channels; its size stays. Geometric ops take the nearest
// pixel and put `fill` in every channel where there is none. On grey images `color` changes
// nothing. `scratch` is reused memory: the two exchange their pixels, and nothing is allocated once
// both have held an image as large. Equal to Pillow to the bit, except that the geometric ops may
// take a neighbouring pixel where coordinates reach 32768.
void augment(const Augmentation& what, std::uint8_t fill, Image& image, Image& scratch);

// torchvision's RandAugment space: `op` at `magnitude` of `bins` for an image of height x width.
// 0 <= magnitude < bins, bins >= 2. `negate` counts only where the op is signed.
Augmentation rand_augmentation(AugmentOp op, int magnitude, int bins, int height, int width,
                               bool negate);

// torchvision's TrivialAugmentWide space. 0 <= bin < bins, bins >= 2; `negate` as above.
Augmentation trivial_augmentation(AugmentOp op, int bin, int bins, bool negate);

}  // namespace trainer::data

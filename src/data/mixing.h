// Mixup (Zhang et al., ICLR 2018) and CutMix (Yun et al., ICCV 2019): what one step draws. No torch
// here.
#pragma once

#include <cstdint>

#include "config/experiment.h"
#include "data/images/transforms.h"

namespace trainer::data {

// How each sample of a step is combined with its partner.
struct Mixing {
  enum class Kind { none, mixup, cutmix };
  Kind kind = Kind::none;
  double lambda = 1;  // the share of the sample itself, in its target too
  Rectangle box;      // cutmix: taken from the partner
};

// A pure function of (seed, step) and the image's size: none, with 1 - probability; else one of the
// kinds that are on, by a fair coin where both are; lambda of Beta(alpha, alpha). The box of cutmix
// has a uniform centre and is cut at the border, lambda then is the share of what is left outside.
Mixing draw_mixing(const config::Mix& config, std::uint64_t seed, std::int64_t step, int height,
                   int width);

}  // namespace trainer::data

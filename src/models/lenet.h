// LeNet-5 (LeCun et al. 1998, "Gradient-based learning applied to document recognition") with the
// ReLU and max-pooling of today's versions of it.
#pragma once

#include "models/module.h"

namespace trainer::models {

// conv1 5x5 to 6 channels, ReLU, 2x2 max-pool; conv2 5x5 to 16 channels, ReLU, 2x2 max-pool; fc1 to
// 120, ReLU; fc2 to 84, ReLU; fc3 to the classes.
//
// The padding makes the usual networks out of the usual inputs and lets smaller images in: conv1 is
// padded by 2 where the shorter side is under 32 pixels, conv2 by 2 where it is under 12. So 32x32
// and 28x28 both come to 16x5x5 before fc1 (61,706 parameters for 28x28 grey digits and 10
// classes), and 8x8 to 16x2x2. The smallest input is 4x4.
class LeNet final : public Module {
 public:
  // Throws Error(config) for a smaller input.
  LeNet(const InputShape& input, std::int64_t classes, std::uint64_t seed);

 private:
  at::Tensor logits(const at::Tensor& input) override;

  Conv2d conv1_, conv2_;
  Linear fc1_, fc2_, fc3_;
};

}  // namespace trainer::models

// Residual networks (He et al. 2015, "Deep residual learning for image recognition") as torchvision
// has them: its names, its order, its initialisation, and its place for the stride (the 3x3
// convolution of a bottleneck, known as v1.5), so that weights go back and forth unchanged.
#pragma once

#include <optional>

#include "models/module.h"

namespace trainer::models {

// Depths 18 and 34 of basic blocks, 50 and 101 of bottlenecks. With the cifar stem, conv1 is a 3x3
// convolution of stride 1 and there is no max-pool; the names are the same.
class ResNet final : public Module {
 public:
  // Throws Error(config) for another depth, and for images that shrink to one pixel before the last
  // stage, which then has nothing to downsample: at least 17x17 with the imagenet stem, 5x5 with
  // cifar.
  ResNet(const config::ResNet& config, const InputShape& input, std::int64_t classes,
         std::uint64_t seed);

 private:
  struct ConvNorm {
    Conv2d conv;
    BatchNorm2d norm;
    at::Tensor operator()(const at::Tensor& input, bool training) const;
  };
  // Convolutions with a ReLU between them, plus the input, and a ReLU.
  struct Residual {
    std::vector<ConvNorm> branch;
    std::optional<ConvNorm> downsample;  // brings the input to the branch's shape
    at::Tensor operator()(const at::Tensor& input, bool training) const;
  };
  struct Architecture;

  at::Tensor logits(const at::Tensor& input) override;
  at::Tensor run_residual(std::size_t index, const at::Tensor& input) const;
  ConvNorm conv_norm(const std::string& conv_name, const std::string& norm_name, std::int64_t in,
                     std::int64_t out, const ConvShape& shape);
  Residual make_block(const std::string& name, bool bottleneck, std::int64_t in, std::int64_t width,
                      std::int64_t stride);
  void add_stage(int stage, const Architecture& architecture);
  void initialise(bool zero_init_residual);

  config::Stem stem_kind_;
  ConvNorm stem_;
  std::vector<Residual> blocks_;
  Linear fc_;
};

}  // namespace trainer::models

// Vision transformers (Dosovitskiy et al. 2021, "An image is worth 16x16 words").
#pragma once

#include "models/module.h"

namespace trainer::models {

// Names, shapes, order and initialisation are those of timm's vit_base_patch16_224 and its
// relatives: a class token, learned positions, and the classes from the class token after the last
// norm. Weights of linear layers and positions are from N(0, 0.02^2) (timm's truncation lies at a
// hundred deviations), the class token from N(0, 1e-6^2), the patches' convolution as PyTorch's.
// `dropout`, in training, is where transformers' ViT has it: the embeddings, the probabilities, and
// both branches of a block.
class Vit final : public Module {
 public:
  // Throws Error(config) where the images are not model.image pixels wide and high, the patch does
  // not divide them, or the heads do not divide the width.
  Vit(const config::Vit& config, const InputShape& input, std::int64_t classes, std::uint64_t seed);

 private:
  struct Layer {
    LayerNorm norm1;
    Linear qkv, projection;
    LayerNorm norm2;
    Linear up, down;
  };

  at::Tensor logits(const at::Tensor& input) override;
  at::Tensor embed(const at::Tensor& input) const;
  Layer make_layer(const std::string& name, const config::Vit& config);
  at::Tensor attend(const Layer& layer, const at::Tensor& x, double dropout) const;
  at::Tensor block(const Layer& layer, const at::Tensor& x, double dropout) const;

  std::int64_t heads_;
  double dropout_;
  at::Tensor class_token_;  // [1, 1, width]
  at::Tensor positions_;    // [1, 1 + patches, width]
  Conv2d patches_;
  std::vector<Layer> layers_;
  LayerNorm norm_;
  Linear head_;
};

}  // namespace trainer::models

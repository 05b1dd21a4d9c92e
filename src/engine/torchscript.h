// A model as TorchScript, made by running it once and writing down what it does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>

#include "models/model.h"

namespace trainer::engine {

struct ScriptInput {
  models::InputShape image;  // of images
  std::int64_t context = 0;  // of text: the most tokens of a sequence; 0 for images
};

struct ScriptShapes {
  bool any_batch = false;   // else batches of one
  bool any_length = false;  // text only; else sequences of `context` tokens
};

// Writes a module for torch.jit.load that takes images float32 [n, channels, height, width] or
// tokens int64 [n, length] and gives logits float32, with the model's tensors under their names.
// `model` is on the CPU and in evaluation mode; its parameters are left without gradients. What
// shapes it takes was tried out. Throws Error(storage) where the file cannot be written.
ScriptShapes write_torchscript(models::Model& model, const ScriptInput& input,
                               const std::filesystem::path& file);

}  // namespace trainer::engine

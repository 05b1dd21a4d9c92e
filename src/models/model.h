// What a model is to the rest of the program, and the registry of kinds.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/MemoryFormat.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"
#include "models/adapters.h"
#include "models/decoder.h"

namespace trainer::models {

class Model : public Stateful {
 public:
  // Images float32 [n, channels, height, width] -> logits [n, classes]; tokens int64 [n, length] ->
  // hidden states and the head. Reads of the batch what is no target. Under autocast where on.
  virtual Output forward(const Batch& batch) = 0;
  Output forward(const at::Tensor& input) {
    Batch batch;
    batch.input = input;
    return forward(batch);
  }
  // How the blocks that the model is made of are run from now on; they are called as they are
  // without one. A model without blocks ignores it.
  virtual void set_block_runner(RunBlock) {}

  // In a fixed order, with PyTorch's state_dict names ("layer1.0.conv1.weight"). The handles share
  // storage and gradient with the module.
  virtual NamedTensors parameters() const = 0;
  virtual NamedTensors buffers() const = 0;
  // Every buffer lives in one of these flat tensors (one a dtype), so that all of them can be
  // saved and put back in one copy each when a step is abandoned or skipped. Fixed after `to`.
  virtual const std::vector<at::Tensor>& buffer_storage() const = 0;

  // Decodes `rows` sequences side by side, each of up to `capacity` tokens (0: the model's
  // context). It uses the model, which must outlive it. nullptr where the model is no language
  // model.
  virtual std::unique_ptr<Decoder> decoder(std::int64_t rows, std::int64_t capacity = 0) {
    static_cast<void>(rows);
    static_cast<void>(capacity);
    return nullptr;
  }

  // Gives every linear layer that a target matches an adapter, which is then a parameter of the
  // model (`<layer>.lora_A.weight`, `<layer>.lora_B.weight`, after all others), and leaves the
  // other parameters without gradients. Call once, before the optimiser. Gives the layers' names;
  // throws Error(config) where a target matches no layer.
  virtual std::vector<std::string> add_adapters(const AdapterOptions& options,
                                                std::uint64_t seed) = 0;
  virtual std::vector<AdaptedLayer> adapted_layers() const = 0;
  // Whether it takes tokens rather than images.
  virtual bool is_language_model() const { return false; }

  virtual void set_training(bool on) = 0;
  // Moves parameters and buffers; 4-d parameters take `format`. Call once, before the optimiser.
  virtual void to(at::Device device, at::MemoryFormat format) = 0;

  // Stateful: parameters and buffers under their names; `load` copies in place and lists every
  // missing, unexpected and differently shaped key.
};

struct InputShape {
  std::int64_t channels = 0, height = 0, width = 0;
};

// Builds and initialises the model of `config` as its reference (torchvision, transformers, timm)
// does, on the CPU in float32, from `seed` alone. For a language model `classes` is the number of
// tokens in the vocabulary, and `input` is not read. Throws Error(config) where the input is too
// small for it, or sizes do not go together.
std::unique_ptr<Model> make_model(const config::Model& config, const InputShape& input,
                                  std::int64_t classes, std::uint64_t seed);

}  // namespace trainer::models

// What a model is to the rest of the program, and the registry of kinds.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/MemoryFormat.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"

namespace trainer::models {

class Model : public Stateful {
 public:
  // input: float32 [n, channels, height, width] -> logits [n, classes]. Under autocast where on.
  virtual Output forward(const at::Tensor& input) = 0;

  // In a fixed order, with PyTorch's state_dict names ("layer1.0.conv1.weight"). The handles share
  // storage and gradient with the module.
  virtual NamedTensors parameters() const = 0;
  virtual NamedTensors buffers() const = 0;
  // Every buffer lives in one of these flat tensors (one a dtype), so that all of them can be
  // saved and put back in one copy each when a step is abandoned or skipped. Fixed after `to`.
  virtual const std::vector<at::Tensor>& buffer_storage() const = 0;

  virtual void set_training(bool on) = 0;
  // Moves parameters and buffers; 4-d parameters take `format`. Call once, before the optimiser.
  virtual void to(at::Device device, at::MemoryFormat format) = 0;

  // Stateful: parameters and buffers under their names; `load` copies in place and lists every
  // missing, unexpected and differently shaped key.
};

struct InputShape {
  std::int64_t channels = 0, height = 0, width = 0;
};

// Builds and initialises (as torchvision does) the model of `config`, on the CPU in float32, from
// `seed` alone. Throws Error(config) where the input is too small for it.
std::unique_ptr<Model> make_model(const config::Model& config, const InputShape& input,
                                  std::int64_t classes, std::uint64_t seed);

}  // namespace trainer::models

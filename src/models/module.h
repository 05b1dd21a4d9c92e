// The base of every model: its tensors by name, their initialisation, placement and state. A kind
// of model makes its layers in its constructor and says how they are applied.
#pragma once

#include <ATen/core/Generator.h>

#include <string>
#include <vector>

#include "models/layers.h"
#include "models/model.h"

namespace trainer::models {

struct ConvShape {
  std::int64_t kernel = 3, stride = 1, padding = 0;
  bool bias = false;
};

class Module : public Model {
 public:
  Output forward(const at::Tensor& input) final;
  NamedTensors parameters() const final;
  NamedTensors buffers() const final;
  const std::vector<at::Tensor>& buffer_storage() const final { return buffer_storage_; }
  void set_training(bool on) final { training_ = on; }
  void to(at::Device device, at::MemoryFormat format) final;

  State state() const final;
  // Tensors of another dtype are converted. Nothing is copied when anything does not fit.
  void load(const State& state) final;

 protected:
  explicit Module(std::uint64_t seed);

  // [n, channels, height, width] -> [n, classes].
  virtual at::Tensor logits(const at::Tensor& input) = 0;
  bool training() const noexcept { return training_; }

  // Each makes a layer whose tensors are called `name`.weight and so on, in state_dict order. The
  // layers are initialised as PyTorch's: convolutions and linear layers U(-b, b) with
  // b = 1/sqrt(fan_in) for weight and bias (kaiming_uniform with a = sqrt(5)), batch norms 1 and 0.
  // Drawing as torch.nn does and in its order, `seed` gives what torch.manual_seed(seed) gives
  // there.
  Conv2d conv2d(const std::string& name, std::int64_t in, std::int64_t out, const ConvShape& shape);
  BatchNorm2d batch_norm2d(const std::string& name, std::int64_t channels);
  Linear linear(const std::string& name, std::int64_t in, std::int64_t out);

  // Draws `weight` anew from N(0, 2/fan_out): He et al. 2015 for ReLU, in the backward direction.
  void kaiming_normal_fan_out(const at::Tensor& weight);

 private:
  struct Entry {
    std::string name;
    at::Tensor value;
    bool trained;
  };

  at::Tensor add_parameter(std::string name, at::IntArrayRef shape);
  at::Tensor add_buffer(std::string name, at::Tensor value);
  void draw_uniform(const at::Tensor& tensor, std::int64_t fan_in);
  NamedTensors select(bool trained) const;
  at::Tensor gather_buffers(at::ScalarType dtype, at::Device device);

  at::Generator generator_;
  std::vector<Entry> entries_;  // in state_dict order
  std::vector<at::Tensor> buffer_storage_;
  at::Tensor batch_counters_;  // every num_batches_tracked; undefined without batch norms
  bool training_ = true;
};

}  // namespace trainer::models

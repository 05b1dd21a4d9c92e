// The base of every model: its tensors by name, their initialisation, placement and state. A kind
// of model makes its layers in its constructor and says how they are applied.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/layers.h"
#include "models/model.h"
#include "models/transformer_layers.h"

namespace trainer::models {

struct ConvShape {
  std::int64_t kernel = 3, stride = 1, padding = 0;
  bool bias = false;
};

class Module : public Model {
 public:
  using Model::forward;
  Output forward(const Batch& batch) final;
  void set_block_runner(RunBlock runner) final { runner_ = std::move(runner); }
  NamedTensors parameters() const final;
  NamedTensors buffers() const final;
  const std::vector<at::Tensor>& buffer_storage() const final { return buffer_storage_; }
  void set_training(bool on) final;
  void to(at::Device device, at::MemoryFormat format) final;
  std::vector<std::string> add_adapters(const AdapterOptions& options, std::uint64_t seed) final;
  std::vector<AdaptedLayer> adapted_layers() const final;

  State state() const final;
  // Tensors of another dtype are converted. Nothing is copied when anything does not fit.
  void load(const State& state) final;

 protected:
  explicit Module(std::uint64_t seed);

  // What `forward` gives. A kind of model overrides this, or `logits` alone.
  virtual Output run(const Batch& batch);
  // [n, channels, height, width] -> [n, classes].
  virtual at::Tensor logits(const at::Tensor& input);
  bool training() const noexcept { return training_; }
  // Block `index` through the runner that is set. The runner may keep a copy of `block` and call it
  // again in the backward pass, so it holds what it needs by value.
  at::Tensor run_block(std::int64_t index, const Block& block, const at::Tensor& input) const {
    return runner_ ? runner_(index, block, input) : block(input);
  }

  // Each makes a layer whose tensors are called `name`.weight and so on, in state_dict order. The
  // layers are initialised as PyTorch's: convolutions and linear layers U(-b, b) with
  // b = 1/sqrt(fan_in) for weight and bias (kaiming_uniform with a = sqrt(5)), batch norms 1 and 0.
  // Drawing as torch.nn does and in its order, `seed` gives what torch.manual_seed(seed) gives
  // there.
  Conv2d conv2d(const std::string& name, std::int64_t in, std::int64_t out, const ConvShape& shape);
  BatchNorm2d batch_norm2d(const std::string& name, std::int64_t channels);
  Linear linear(const std::string& name, std::int64_t in, std::int64_t out);

  // Linear layers of transformers: weights from N(0, std^2), biases 0.
  Linear normal_linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias,
                       double std);
  TransposedLinear transposed_linear(const std::string& name, std::int64_t in, std::int64_t out,
                                     double std);
  Embedding embedding(const std::string& name, std::int64_t rows, std::int64_t width, double std);
  LayerNorm layer_norm(const std::string& name, std::int64_t width, double eps);
  RmsNorm rms_norm(const std::string& name, std::int64_t width, double eps);
  // A parameter of its own, from N(0, std^2).
  at::Tensor normal_parameter(const std::string& name, at::IntArrayRef shape, double std);

  // Draws `weight` anew from N(0, 2/fan_out): He et al. 2015 for ReLU, in the backward direction.
  void kaiming_normal_fan_out(const at::Tensor& weight);

 private:
  struct Entry {
    std::string name;
    at::Tensor value;
    bool trained;
  };

  // A linear layer that may be given an adapter.
  struct Slot {
    std::string name;
    at::Tensor weight;
    bool transposed;  // weight is [in, out]
    std::shared_ptr<Adapter> adapter;
  };

  at::Tensor add_parameter(std::string name, at::IntArrayRef shape);
  std::shared_ptr<Adapter> add_slot(const std::string& name, const at::Tensor& weight,
                                    bool transposed);
  void fill_slot(Slot& slot, const AdapterOptions& options, at::Generator generator);
  std::vector<std::string> slot_names() const;
  at::Tensor constant_parameter(const std::string& name, std::int64_t size, double value);
  at::Tensor add_buffer(std::string name, at::Tensor value);
  void draw_uniform(const at::Tensor& tensor, std::int64_t fan_in);
  NamedTensors select(bool trained) const;
  at::Tensor gather_buffers(at::ScalarType dtype, at::Device device);

  at::Generator generator_;
  std::vector<Entry> entries_;  // in state_dict order
  std::vector<at::Tensor> buffer_storage_;
  at::Tensor batch_counters_;  // every num_batches_tracked; undefined without batch norms
  std::vector<Slot> slots_;
  RunBlock runner_;
  bool training_ = true;
};

}  // namespace trainer::models

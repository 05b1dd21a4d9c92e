#include "models/module.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace trainer::models {
namespace {

constexpr std::size_t kNamesShown = 10;

std::string shape_text(const at::Tensor& tensor) {
  std::string text = "[";
  for (const std::int64_t size : tensor.sizes()) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

// "3 missing (a, b, c)"; the names after the first ten are only counted.
std::string list_text(const std::string& what, const std::vector<std::string>& items) {
  std::string text = std::to_string(items.size()) + " " + what + " (";
  for (std::size_t i = 0; i < std::min(items.size(), kNamesShown); ++i) {
    if (i > 0) text += ", ";
    text += items[i];
  }
  if (items.size() > kNamesShown) {
    text += ", and " + std::to_string(items.size() - kNamesShown) + " more";
  }
  return text + ")";
}

// What keeps a saved state from fitting a model.
struct Differences {
  std::vector<std::string> missing, unexpected, reshaped;

  void require_none() const {
    std::string text;
    const auto append = [&text](const std::string& what, const std::vector<std::string>& items) {
      if (items.empty()) return;
      if (!text.empty()) text += "; ";
      text += list_text(what, items);
    };
    append("missing", missing);
    append("unexpected", unexpected);
    append("of another shape", reshaped);
    if (text.empty()) return;
    throw Error(Exit::storage, "the saved weights do not fit the model: " + text +
                                   ". They come from another architecture: compare model.kind, "
                                   "model.classes and the image size with the run that saved them");
  }
};

[[noreturn]] void throw_unmatched(const std::string& target,
                                  const std::vector<std::string>& names) {
  std::string known = "the model has none that takes an adapter";
  if (!names.empty()) {
    known = "the model has " + names.front() + " to " + names.back() + "; \"*\" takes all " +
            std::to_string(names.size());
  }
  throw Error(Exit::config,
              "the adapters' target \"" + target + "\" matches no linear layer: " + known);
}

}  // namespace

Module::Module(std::uint64_t seed) : generator_(at::detail::createCPUGenerator(seed)) {}

Output Module::forward(const Batch& batch) {
  if (training_ && batch_counters_.defined()) {
    const at::NoGradGuard no_grad;
    batch_counters_.add_(1);
  }
  return run(batch);
}

Output Module::run(const Batch& batch) {
  Output output;
  output.logits = logits(batch.input);
  return output;
}

at::Tensor Module::logits(const at::Tensor&) { return {}; }

void Module::set_training(bool on) {
  training_ = on;
  for (const Slot& slot : slots_) slot.adapter->training = on;
}

NamedTensors Module::select(bool trained) const {
  NamedTensors tensors;
  for (const Entry& entry : entries_) {
    if (entry.trained == trained) tensors.push_back({entry.name, entry.value});
  }
  return tensors;
}

NamedTensors Module::parameters() const { return select(true); }

NamedTensors Module::buffers() const { return select(false); }

// Note [Handles]: layers, the optimiser and the gradient reducer hold handles of these tensors, so
// a tensor is never replaced: set_data swaps the memory behind the handle.
void Module::to(at::Device device, at::MemoryFormat format) {
  const at::NoGradGuard no_grad;
  for (const Entry& entry : entries_) {
    if (!entry.trained) continue;
    const auto kept = entry.value.dim() == 4 ? format : at::MemoryFormat::Contiguous;
    entry.value.set_data(entry.value.detach().to(device, entry.value.scalar_type(),
                                                 /*non_blocking=*/false, /*copy=*/true, kept));
  }
  buffer_storage_.clear();
  for (const at::ScalarType dtype : {at::kFloat, at::kLong}) {
    const at::Tensor storage = gather_buffers(dtype, device);
    if (storage.defined()) buffer_storage_.push_back(storage);
    if (dtype == at::kLong) batch_counters_ = storage;
  }
}

// Moves every buffer of `dtype` into one flat tensor on `device` and makes the buffers views of it.
// Undefined where there are none.
at::Tensor Module::gather_buffers(at::ScalarType dtype, at::Device device) {
  std::vector<at::Tensor> buffers;
  std::vector<at::Tensor> values;
  for (const Entry& entry : entries_) {
    if (entry.trained || entry.value.scalar_type() != dtype) continue;
    buffers.push_back(entry.value);
    values.push_back(entry.value.reshape({-1}));
  }
  if (buffers.empty()) return {};
  at::Tensor storage = at::cat(values).to(device);
  std::int64_t offset = 0;
  for (const at::Tensor& buffer : buffers) {
    const std::int64_t size = buffer.numel();
    buffer.set_data(storage.narrow(0, offset, size).view(buffer.sizes()));
    offset += size;
  }
  return storage;
}

State Module::state() const {
  State state;
  for (const Entry& entry : entries_) state.tensors.push_back({entry.name, entry.value});
  return state;
}

void Module::load(const State& state) {
  std::unordered_map<std::string, at::Tensor> saved;
  for (const NamedTensor& tensor : state.tensors) saved.emplace(tensor.name, tensor.value);

  Differences differences;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (const Entry& entry : entries_) {
    const auto node = saved.extract(entry.name);
    if (node.empty()) {
      differences.missing.push_back(entry.name);
    } else if (node.mapped().sizes() != entry.value.sizes()) {
      differences.reshaped.push_back(entry.name + " " + shape_text(node.mapped()) +
                                     " where the model has " + shape_text(entry.value));
    } else {
      copies.emplace_back(entry.value, node.mapped());
    }
  }
  for (const NamedTensor& tensor : state.tensors) {
    if (saved.contains(tensor.name)) {
      differences.unexpected.push_back(tensor.name + " " + shape_text(tensor.value));
    }
  }
  differences.require_none();

  const at::NoGradGuard no_grad;
  for (const auto& [own, loaded] : copies) own.copy_(loaded);
}

at::Tensor Module::add_parameter(std::string name, at::IntArrayRef shape) {
  at::Tensor value = at::empty(shape, at::kFloat);
  value.requires_grad_(true);
  entries_.push_back({std::move(name), value, true});
  return value;
}

at::Tensor Module::add_buffer(std::string name, at::Tensor value) {
  entries_.push_back({std::move(name), value, false});
  return value;
}

void Module::draw_uniform(const at::Tensor& tensor, std::int64_t fan_in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  tensor.uniform_(-bound, bound, generator_);
}

std::shared_ptr<Adapter> Module::add_slot(const std::string& name, const at::Tensor& weight,
                                          bool transposed) {
  slots_.push_back({name, weight, transposed, std::make_shared<Adapter>()});
  return slots_.back().adapter;
}

// The other parameters lose their gradients even where a target matches them: an adapted weight is
// frozen, and its adapter learns in its place.
std::vector<std::string> Module::add_adapters(const AdapterOptions& options, std::uint64_t seed) {
  std::vector<Slot*> chosen;
  std::vector<bool> used(options.targets.size(), false);
  for (Slot& slot : slots_) {
    bool matches = false;
    for (std::size_t i = 0; i < options.targets.size(); ++i) {
      if (!glob_match(options.targets[i], slot.name)) continue;
      matches = used[i] = true;
    }
    if (matches) chosen.push_back(&slot);
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) throw_unmatched(options.targets[i], slot_names());
  }
  for (const Entry& entry : entries_) {
    if (entry.trained) entry.value.requires_grad_(false);
  }
  const at::Generator drawn = at::detail::createCPUGenerator(seed);
  std::vector<std::string> names;
  for (Slot* slot : chosen) {
    fill_slot(*slot, options, drawn);
    names.push_back(slot->name);
  }
  return names;
}

// `down` is drawn as peft does: kaiming_uniform with a = sqrt(5).
void Module::fill_slot(Slot& slot, const AdapterOptions& options, at::Generator generator) {
  const at::NoGradGuard no_grad;
  const std::int64_t in = slot.weight.size(slot.transposed ? 0 : 1);
  const std::int64_t out = slot.weight.size(slot.transposed ? 1 : 0);
  const double bound = 1.0 / std::sqrt(static_cast<double>(in));
  Adapter& adapter = *slot.adapter;
  adapter.down = add_parameter(slot.name + ".lora_A.weight", {options.rank, in});
  adapter.down.uniform_(-bound, bound, std::move(generator));
  adapter.up = add_parameter(slot.name + ".lora_B.weight", {out, options.rank}).fill_(0);
  adapter.scale = options.alpha / static_cast<double>(options.rank);
  adapter.dropout = options.dropout;
  adapter.training = training_;
  for (const at::Tensor& tensor : {adapter.down, adapter.up}) {
    tensor.set_data(tensor.detach().to(slot.weight.device()));
  }
}

std::vector<AdaptedLayer> Module::adapted_layers() const {
  std::vector<AdaptedLayer> layers;
  for (const Slot& slot : slots_) {
    const Adapter& adapter = *slot.adapter;
    if (!adapter.down.defined()) continue;
    layers.push_back(
        {slot.name, slot.weight, adapter.down, adapter.up, adapter.scale, slot.transposed});
  }
  return layers;
}

std::vector<std::string> Module::slot_names() const {
  std::vector<std::string> names;
  for (const Slot& slot : slots_) names.push_back(slot.name);
  return names;
}

Conv2d Module::conv2d(const std::string& name, std::int64_t in, std::int64_t out,
                      const ConvShape& shape) {
  const at::NoGradGuard no_grad;
  const std::int64_t fan_in = in * shape.kernel * shape.kernel;
  Conv2d layer{.weight = add_parameter(name + ".weight", {out, in, shape.kernel, shape.kernel}),
               .bias = {},
               .stride = shape.stride,
               .padding = shape.padding};
  draw_uniform(layer.weight, fan_in);
  if (shape.bias) {
    layer.bias = add_parameter(name + ".bias", {out});
    draw_uniform(layer.bias, fan_in);
  }
  return layer;
}

BatchNorm2d Module::batch_norm2d(const std::string& name, std::int64_t channels) {
  const at::NoGradGuard no_grad;
  BatchNorm2d layer;
  layer.weight = add_parameter(name + ".weight", {channels}).fill_(1);
  layer.bias = add_parameter(name + ".bias", {channels}).fill_(0);
  layer.running_mean = add_buffer(name + ".running_mean", at::zeros({channels}, at::kFloat));
  layer.running_var = add_buffer(name + ".running_var", at::ones({channels}, at::kFloat));
  add_buffer(name + ".num_batches_tracked", at::zeros({}, at::kLong));
  return layer;
}

Linear Module::linear(const std::string& name, std::int64_t in, std::int64_t out) {
  const at::NoGradGuard no_grad;
  Linear layer;
  layer.weight = add_parameter(name + ".weight", {out, in});
  layer.bias = add_parameter(name + ".bias", {out});
  layer.adapter = add_slot(name, layer.weight, /*transposed=*/false);
  draw_uniform(layer.weight, in);
  draw_uniform(layer.bias, in);
  return layer;
}

at::Tensor Module::normal_parameter(const std::string& name, at::IntArrayRef shape, double std) {
  const at::NoGradGuard no_grad;
  return add_parameter(name, shape).normal_(0.0, std, generator_);
}

at::Tensor Module::constant_parameter(const std::string& name, std::int64_t size, double value) {
  const at::NoGradGuard no_grad;
  return add_parameter(name, {size}).fill_(value);
}

Linear Module::normal_linear(const std::string& name, std::int64_t in, std::int64_t out, bool bias,
                             double std) {
  Linear layer;
  layer.weight = normal_parameter(name + ".weight", {out, in}, std);
  if (bias) layer.bias = constant_parameter(name + ".bias", out, 0);
  layer.adapter = add_slot(name, layer.weight, /*transposed=*/false);
  return layer;
}

TransposedLinear Module::transposed_linear(const std::string& name, std::int64_t in,
                                           std::int64_t out, double std) {
  TransposedLinear layer;
  layer.weight = normal_parameter(name + ".weight", {in, out}, std);
  layer.bias = constant_parameter(name + ".bias", out, 0);
  layer.adapter = add_slot(name, layer.weight, /*transposed=*/true);
  return layer;
}

Embedding Module::embedding(const std::string& name, std::int64_t rows, std::int64_t width,
                            double std) {
  return {normal_parameter(name + ".weight", {rows, width}, std)};
}

LayerNorm Module::layer_norm(const std::string& name, std::int64_t width, double eps) {
  LayerNorm layer;
  layer.weight = constant_parameter(name + ".weight", width, 1);
  layer.bias = constant_parameter(name + ".bias", width, 0);
  layer.eps = eps;
  return layer;
}

RmsNorm Module::rms_norm(const std::string& name, std::int64_t width, double eps) {
  return {constant_parameter(name + ".weight", width, 1), eps};
}

void Module::kaiming_normal_fan_out(const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  const std::int64_t fan_out = weight.size(0) * weight.size(2) * weight.size(3);
  weight.normal_(0.0, std::sqrt(2.0 / static_cast<double>(fan_out)), generator_);
}

}  // namespace trainer::models

#include "data/preparation.h"

#include <ATen/Parallel.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <string>

#include "core/error.h"
#include "data/gpu/kernels.h"

namespace trainer::data {
namespace {

// lambda * own + (1 - lambda) * other, in place. Three roundings, never a fused multiply-add:
// vector and scalar code would differ in the last bit, and so would the cuts.
at::Tensor blend(const at::Tensor& own, const at::Tensor& other, double lambda) {
  other.mul_(1.0 - lambda);
  return own.mul_(lambda).add_(other);
}

}  // namespace

StepTensors parts_of(std::byte* data, const HostBatch& batch, const Loader& loader,
                     at::Device device) {
  const auto offset = [&batch](const void* part) {
    return static_cast<const std::byte*>(part) - batch.block.data();
  };
  const std::int64_t n = loader.capacity();
  StepTensors raw;
  raw.labels = at::from_blob(data, {n}, at::TensorOptions(device).dtype(at::kLong));
  if (loader.weighted()) {
    raw.weights = at::from_blob(data + offset(batch.weights.data()), {n},
                                at::TensorOptions(device).dtype(at::kFloat));
  }
  if (loader.erases()) {
    raw.erase = at::from_blob(data + offset(batch.erase.data()), {n, 4},
                              at::TensorOptions(device).dtype(at::kInt));
  }
  raw.images = at::from_blob(data + offset(batch.images.data()),
                             {n, loader.height(), loader.width(), loader.channels()},
                             at::TensorOptions(device).dtype(at::kByte));
  return raw;
}

Preparation::Preparation(const Loader& loader, const Normalisation& normalisation, bool erases,
                         const FeedOptions& options, at::Device device)
    : device_(device),
      format_(options.memory_format),
      type_(options.type),
      erases_(erases),
      mixes_(options.mix.has_value()),
      height_(loader.height()),
      width_(loader.width()),
      channels_(loader.channels()) {
  const auto floats = at::TensorOptions(device).dtype(at::kFloat);
  const auto longs = at::TensorOptions(device).dtype(at::kLong);
  for (std::size_t i = 0; i < normalisation.mean.size(); ++i) {
    shift_by_channel_.push_back(255.0F * normalisation.mean[i]);
    factor_by_channel_.push_back(1.0F / (255.0F * normalisation.std[i]));
  }
  shift_ = at::tensor(shift_by_channel_, at::kFloat).view({1, -1, 1, 1}).to(floats);
  factor_ = at::tensor(factor_by_channel_, at::kFloat).view({1, -1, 1, 1}).to(floats);
  ones_ = at::ones({loader.capacity()}, floats);
  partner_ = at::bitwise_xor(at::arange(loader.capacity(), longs), 1);
  rows_ = at::arange(height_, longs);
  columns_ = at::arange(width_, longs);
  if (mixes_) classes_ = at::arange(options.classes, longs);
}

Batch Preparation::make(const StepTensors& raw, std::int64_t size, std::int64_t begin,
                        std::int64_t end, const std::optional<Mixing>& mixing) const {
  const Mixing how = mixing.value_or(Mixing{});
  Batch batch;
  batch.weight = (raw.weights.defined() ? raw.weights : ones_).narrow(0, begin, end - begin);
  batch.input = input(raw, size, begin, end, how);
  batch.target = target(raw, size, begin, end, how);
  return batch;
}

at::Tensor Preparation::partners(std::int64_t size, std::int64_t begin, std::int64_t end) const {
  return at::clamp_max(partner_.narrow(0, begin, end - begin), size - 1);
}

at::Tensor Preparation::target(const StepTensors& raw, std::int64_t size, std::int64_t begin,
                               std::int64_t end, const Mixing& mixing) const {
  const at::Tensor labels = raw.labels.narrow(0, begin, end - begin);
  if (!mixes_) return labels;
  const at::Tensor own = one_hot(labels);
  if (mixing.kind == Mixing::Kind::none) return own;
  const at::Tensor other = at::index_select(raw.labels, 0, partners(size, begin, end));
  return blend(own, one_hot(other), mixing.lambda);
}

// CUDA's allocator keeps memory by itself.
at::Tensor Preparation::empty_input(std::int64_t size) const {
  constexpr std::size_t kMostKept = 4;
  const std::array<std::int64_t, 4> sizes{size, channels_, height_, width_};
  for (const at::Tensor& input : inputs_)
    if (input.use_count() == 1 && input.sizes() == at::IntArrayRef(sizes)) return input;
  at::Tensor input =
      at::empty(sizes, at::TensorOptions(device_).dtype(type_).memory_format(format_));
  if (!device_.is_cpu()) return input;
  if (inputs_.size() == kMostKept) inputs_.erase(inputs_.begin());
  inputs_.push_back(input);
  return input;
}

Prepare Preparation::task_of(const StepTensors& raw, std::int64_t size, std::int64_t begin,
                             std::int64_t end, const Mixing& mixing, at::Tensor& input) const {
  Prepare task{};
  task.images = raw.images.const_data_ptr<std::uint8_t>();
  task.erase = erases_ ? raw.erase.const_data_ptr<std::int32_t>() : nullptr;
  task.height = height_;
  task.width = width_;
  task.channels = channels_;
  std::copy(shift_by_channel_.begin(), shift_by_channel_.end(), std::begin(task.shift));
  std::copy(factor_by_channel_.begin(), factor_by_channel_.end(), std::begin(task.factor));
  task.size = size;
  task.begin = begin;
  task.end = end;
  task.mix = static_cast<int>(mixing.kind);
  task.own = static_cast<float>(mixing.lambda);
  task.other = static_cast<float>(1.0 - mixing.lambda);
  task.box_top = mixing.box.top;
  task.box_left = mixing.box.left;
  task.box_height = mixing.box.height;
  task.box_width = mixing.box.width;
  task.channels_last = format_ == at::MemoryFormat::ChannelsLast;
  task.type = type_ == at::kBFloat16 ? InputType::bfloat16
              : type_ == at::kHalf   ? InputType::float16
                                     : InputType::float32;
  input = empty_input(end - begin);
  task.input = input.mutable_data_ptr();
  return task;
}

at::Tensor Preparation::input(const StepTensors& raw, std::int64_t size, std::int64_t begin,
                              std::int64_t end, const Mixing& mixing) const {
  at::Tensor input;
  if (device_.is_cpu()) {
    const Prepare task = task_of(raw, size, begin, end, mixing, input);
    at::parallel_for(0, end - begin, 1, [&task](std::int64_t first, std::int64_t last) {
      prepare(task, first, last);
    });
    return input;
  }
#ifdef TRAINER_KERNELS
  const c10::impl::VirtualGuardImpl streams(device_.type());
  const char* failure = kernels::prepare(task_of(raw, size, begin, end, mixing, input),
                                         streams.getStream(device_).native_handle());
  if (failure != nullptr)
    throw Error(Exit::device, std::string("preparing a batch on the GPU: ") + failure);
  return input;
#else
  return input_by_operators(raw, size, begin, end, mixing);
#endif
}

// On a GPU without kernels. Only element-wise operations whose rounding does not depend on an
// element's place.
at::Tensor Preparation::input_by_operators(const StepTensors& raw, std::int64_t size,
                                           std::int64_t begin, std::int64_t end,
                                           const Mixing& mixing) const {
  const std::int64_t n = end - begin;
  const at::Tensor values = floats(raw.images.narrow(0, begin, n),
                                   erases_ ? raw.erase.narrow(0, begin, n) : at::Tensor());
  if (mixing.kind == Mixing::Kind::none) return values.to(type_);
  const at::Tensor which = partners(size, begin, end);
  const at::Tensor partner = floats(at::index_select(raw.images, 0, which),
                                    erases_ ? at::index_select(raw.erase, 0, which) : at::Tensor());
  if (mixing.kind == Mixing::Kind::mixup) return blend(values, partner, mixing.lambda).to(type_);
  const Rectangle& box = mixing.box;
  const auto inside = [&box](const at::Tensor& images) {
    return images.narrow(2, box.top, box.height).narrow(3, box.left, box.width);
  };
  inside(values).copy_(inside(partner));
  return values.to(type_);
}

// Normalised, then erased.
at::Tensor Preparation::floats(const at::Tensor& images, const at::Tensor& erase) const {
  // u8 minus float is one pass that keeps the strides: NHWC in memory is channels_last.
  at::Tensor pixels = images.permute({0, 3, 1, 2});
  if (format_ == at::MemoryFormat::Contiguous && channels_ > 1) pixels = pixels.contiguous();
  at::Tensor values = at::sub(pixels, shift_).mul_(factor_).contiguous(format_);
  if (erases_) values.masked_fill_(erased(erase), 0.0);
  return values;
}

// bool [n, 1, height, width]
at::Tensor Preparation::erased(const at::Tensor& rectangles) const {
  const auto within = [&rectangles](const at::Tensor& positions, std::int64_t side) {
    const at::Tensor start = rectangles.narrow(1, side, 1);
    const at::Tensor past = at::add(start, rectangles.narrow(1, side + 2, 1));
    return at::logical_and(at::ge(positions, start), at::lt(positions, past));
  };
  return at::logical_and(within(rows_, 0).unsqueeze(2), within(columns_, 1).unsqueeze(1))
      .unsqueeze(1);
}

at::Tensor Preparation::one_hot(const at::Tensor& labels) const {
  return at::eq(labels.unsqueeze(1), classes_).to(at::kFloat);
}

}  // namespace trainer::data

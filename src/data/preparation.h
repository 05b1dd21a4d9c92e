// Makes model input of a step's raw samples, on their device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/tensors.h"
#include "data/feed.h"
#include "data/loader.h"
#include "data/mixing.h"
#include "data/prepare.h"

namespace trainer::data {

// A step's raw data on the device.
struct StepTensors {
  at::Tensor images;   // u8 [n, height, width, channels]
  at::Tensor labels;   // i64 [n]
  at::Tensor weights;  // f32 [n], undefined where all are 1
  at::Tensor erase;    // i32 [n, 4], undefined where nothing is erased
};

// The parts of a slot's block (see HostBatch) that lies at `data`, as tensors for the slot's whole
// capacity.
StepTensors parts_of(std::byte* data, const HostBatch& batch, const Loader& loader,
                     at::Device device);

// All the constants on the device, and the arithmetic: normalised, erased, mixed. A sample's values
// do not depend on the cut: every rounding is that of one element.
class Preparation {
 public:
  Preparation(const Loader& loader, const Normalisation& normalisation, bool erases,
              const FeedOptions& options, at::Device device);

  int height() const { return height_; }
  int width() const { return width_; }

  // Of samples [begin, end) of a step that has `size`. Runs on the current stream.
  Batch make(const StepTensors& raw, std::int64_t size, std::int64_t begin, std::int64_t end,
             const std::optional<Mixing>& mixing) const;

 private:
  Prepare task_of(const StepTensors& raw, std::int64_t size, std::int64_t begin, std::int64_t end,
                  const Mixing& mixing, at::Tensor& input) const;
  at::Tensor input(const StepTensors& raw, std::int64_t size, std::int64_t begin, std::int64_t end,
                   const Mixing& mixing) const;
  at::Tensor empty_input(std::int64_t size) const;
  at::Tensor input_by_operators(const StepTensors& raw, std::int64_t size, std::int64_t begin,
                                std::int64_t end, const Mixing& mixing) const;
  at::Tensor target(const StepTensors& raw, std::int64_t size, std::int64_t begin, std::int64_t end,
                    const Mixing& mixing) const;
  at::Tensor partners(std::int64_t size, std::int64_t begin, std::int64_t end) const;
  at::Tensor floats(const at::Tensor& images, const at::Tensor& erase) const;
  at::Tensor erased(const at::Tensor& rectangles) const;
  at::Tensor one_hot(const at::Tensor& labels) const;

  at::Device device_;
  at::MemoryFormat format_;
  at::ScalarType type_;
  bool erases_, mixes_;
  int height_, width_, channels_;
  std::vector<float> shift_by_channel_, factor_by_channel_;
  at::Tensor shift_, factor_;  // float32 [1, channels, 1, 1]
  at::Tensor ones_;            // float32 [capacity]
  at::Tensor partner_;         // int64 [capacity]: 1, 0, 3, 2, ...
  at::Tensor rows_, columns_;  // int64 [height], [width]
  at::Tensor classes_;         // int64 [classes]
  // On the CPU: inputs that were given out. Fresh memory of this size costs more than filling it.
  mutable std::vector<at::Tensor> inputs_;
};

}  // namespace trainer::data

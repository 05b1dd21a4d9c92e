// The transforms of an experiment file, as a pipeline over one sample. No torch here.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "config/experiment.h"
#include "core/random.h"
#include "data/dataset.h"
#include "data/images/sample_plan.h"

namespace trainer::data {

// What happens after the 8-bit image: on the device, by the feed. value = (pixel/255 - mean)/std by
// channel; without a normalize in the list mean is 0 and std 1.
struct Normalisation {
  std::vector<float> mean, std;
};

class Pipeline {
 public:
  // Throws Error(config) where the list makes no sense (normalize twice, erasing before normalize).
  Pipeline(const std::vector<config::Transform>& transforms, int channels);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;

  // For a picture of height x width, drawing from `random` only, always the same number of draws.
  // Throws Error(data) where a transform cannot be applied to that size.
  void plan(int height, int width, Stream& random, SamplePlan& plan) const;

  int channels() const;  // of the images
  const Normalisation& normalisation() const;
  bool erases() const;
  // Height and width of the result where the list fixes it (crop), else nullopt: then every image
  // must come out with the size of the first.
  std::optional<std::pair<int, int>> output_size() const;
  // Whether a picture of that size may be decoded reduced (see `reduction`) for some draw.
  bool may_reduce(int height, int width) const;
  // The first transform that only the CPU can do, or nullptr.
  const char* cpu_only() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

// The transforms of an experiment file, as a pipeline over one sample. No torch here.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "config/experiment.h"
#include "core/random.h"
#include "data/dataset.h"

namespace trainer::data {

// A rectangle in pixels of the final image; empty where height is 0.
struct Rectangle {
  int top = 0, left = 0, height = 0, width = 0;
};

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

  // Transforms `image` in place, drawing from `random` only, always in the same order. Returns the
  // rectangle that random_erasing chose. `scratch` is reused memory, one per thread.
  Rectangle apply(Image& image, Stream& random, Image& scratch) const;
  const Normalisation& normalisation() const;
  bool erases() const;
  // Height and width of the result where the list fixes it (crop), else nullopt: then every image
  // must come out with the size of the first.
  std::optional<std::pair<int, int>> output_size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

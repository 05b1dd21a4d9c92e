// What a feed gives the training loop for each step, whatever the samples are.
#pragma once

#include <cstdint>
#include <vector>

#include "core/tensors.h"
#include "data/loader.h"
#include "data/sample_maker.h"
#include "data/sampler.h"

namespace trainer::data {

// A step's samples on the device, as compact as they were delivered: cut it into micro-batches as
// often as needed (a step that is done again cuts it anew).
class StepBatch {
 public:
  virtual ~StepBatch() = default;
  virtual std::int64_t step() const = 0;
  virtual const StepPlace& place() const = 0;
  virtual std::int64_t size() const = 0;
  // What a mean over the share divides by: the sum of the samples' weights; of tokens, how many
  // targets count.
  virtual double weight() const = 0;
  virtual const std::vector<BadSample>& bad() const = 0;
  // Samples [begin, end) of the share as the model and the objective take them. Runs on the current
  // stream and never waits for the device. A sample's values do not depend on the cut.
  virtual Batch micro(std::int64_t begin, std::int64_t end) const = 0;
};

// Host time, in milliseconds since the last call.
struct FeedTimes {
  double wait_ms = 0;     // that next() was blocked for data
  double deliver_ms = 0;  // bringing batches to the device (with the GPU's decoding)
  StageTimes stages;      // of the loader's threads, summed
};

// Brings one rank's share of each step to the device, ahead of training.
class BatchFeed {
 public:
  virtual ~BatchFeed() = default;
  // The next step's batch, or nullptr at the end; valid until the next call. On CUDA two device
  // buffers with fixed addresses are used in turn (a captured step needs stable addresses).
  virtual const StepBatch* next() = 0;
  // Drops what was brought ahead (waiting for copies under way) and goes on from `step`.
  virtual void seek(std::int64_t step) = 0;
  virtual FeedTimes take_times() = 0;
};

}  // namespace trainer::data

// Brings the loader's host batches to the device, one step ahead, and makes model input of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"
#include "data/loader.h"

namespace trainer::data {

struct FeedOptions {
  at::Device device = at::kCPU;
  at::MemoryFormat memory_format = at::MemoryFormat::Contiguous;
  std::int64_t classes = 0;        // for soft targets
  std::optional<config::Mix> mix;  // training only
  std::uint64_t seed = 0;
  // Of the input: what autocast would cast it to, or float32.
  at::ScalarType type = at::kFloat;
};

// A step's samples on the device, still 8-bit: cut it into micro-batches as often as needed (a step
// that is done again cuts it anew).
class StepBatch {
 public:
  virtual ~StepBatch() = default;
  virtual std::int64_t step() const = 0;
  virtual const StepPlace& place() const = 0;
  virtual std::int64_t size() const = 0;
  // The sum of the samples' weights.
  virtual double weight() const = 0;
  virtual const std::vector<BadSample>& bad() const = 0;
  // Normalised, mixed and erased input of samples [begin, end) of the share. Runs on the
  // current stream and never waits for the device. A sample's values do not depend on the cut.
  virtual Batch micro(std::int64_t begin, std::int64_t end) const = 0;
};

// Host time, in milliseconds since the last call.
struct FeedTimes {
  double wait_ms = 0;     // that next() was blocked for data
  double deliver_ms = 0;  // bringing batches to the device (with the GPU's decoding), on its thread
  StageTimes stages;      // of the loader's threads, summed
};

class Feed {
 public:
  // `loader` outlives the feed. On CUDA, what the loader leaves to the GPU is decoded there; throws
  // Error(device) where that cannot be done.
  Feed(Loader& loader, const Normalisation& normalisation, bool erases, FeedOptions options);
  ~Feed();
  // The next step's batch, or nullptr at the end; valid until the next call. On CUDA a thread
  // brings the following batch meanwhile, on a stream of its own. Two device buffers with fixed
  // addresses are used in turn (a captured step needs stable addresses).
  const StepBatch* next();
  // Drops what was brought ahead (waiting for copies under way) and goes on from `step`, by
  // `Loader::seek`: seek the feed, not its loader.
  void seek(std::int64_t step);
  FeedTimes take_times();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Why images cannot be decoded on `device` for this loader; empty where they can.
std::string no_gpu_decoding(const Loader& loader, at::Device device);

}  // namespace trainer::data

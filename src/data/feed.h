// Brings the loader's host batches to the device, one step ahead, and makes model input of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

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
};

// A step's samples on the device, still 8-bit: cut it into micro-batches as often as needed (a step
// that is done again cuts it anew).
class StepBatch {
 public:
  virtual ~StepBatch() = default;
  virtual std::int64_t step() const = 0;
  virtual const StepPlace& place() const = 0;
  virtual std::int64_t size() const = 0;
  // Normalised, mixed and erased float32 input of samples [begin, end) of the share. Runs on the
  // current stream and never waits for the device. A sample's values do not depend on the cut.
  virtual Batch micro(std::int64_t begin, std::int64_t end) const = 0;
};

class Feed {
 public:
  // `loader` outlives the feed.
  Feed(Loader& loader, const Normalisation& normalisation, bool erases, FeedOptions options);
  ~Feed();
  // The next step's batch, or nullptr at the end; valid until the next call. On CUDA the copy of
  // the following step is started on a stream of its own before this returns. Two device buffers
  // with fixed addresses are used in turn (a captured step needs stable addresses).
  const StepBatch* next();
  // Drops what was brought ahead (waiting for copies under way) and goes on from `step`, by
  // `Loader::seek`: seek the feed, not its loader.
  void seek(std::int64_t step);
  // Host time that next() was blocked for data since the last call.
  LoaderTimes take_times();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

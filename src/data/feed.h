// Brings the loader's host batches to the device, one step ahead, and makes model input of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "config/experiment.h"
#include "core/tensors.h"
#include "data/loader.h"
#include "data/step_batch.h"

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

class Feed : public BatchFeed {
 public:
  // `loader` outlives the feed. On CUDA, what the loader leaves to the GPU is decoded there; throws
  // Error(device) where that cannot be done.
  Feed(Loader& loader, const Normalisation& normalisation, bool erases, FeedOptions options);
  ~Feed() override;
  // The step's samples, still 8-bit until they are cut: normalised, mixed and erased then. On CUDA
  // a thread brings the following batch meanwhile, on a stream of its own.
  const StepBatch* next() override;
  // By `Loader::seek`: seek the feed, not its loader.
  void seek(std::int64_t step) override;
  FeedTimes take_times() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Why images cannot be decoded on `device` for this loader; empty where they can.
std::string no_gpu_decoding(const Loader& loader, at::Device device);

}  // namespace trainer::data

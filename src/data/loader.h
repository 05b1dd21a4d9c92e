// Fills a ring of host buffers with one rank's share of each step, ahead of training, on threads.
// No torch here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "data/dataset.h"
#include "data/sampler.h"
#include "data/transforms.h"

namespace trainer::data {

// Host memory for a slot: page-locked where a GPU takes the copies. Owned; freed on destruction.
struct HostMemory {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
};
using Allocate = std::function<HostMemory(std::size_t bytes)>;
// `memory::allocate_host`, for LoaderOptions.
Allocate host_allocator(bool pinned);

// A filled slot of the ring. Buffers keep their addresses for the loader's whole life, and stand in
// one block in the order labels, erase, images: labels and erase take the room of the slot's
// capacity, so that the parts have the same offsets in every slot and one copy moves them all.
struct HostBatch {
  std::int64_t step = 0;
  StepPlace place;
  std::int64_t size = 0;           // samples in it: place.share.size()
  std::span<std::uint8_t> images;  // [size, height, width, channels], packed
  std::span<std::int64_t> labels;  // [size]
  std::span<std::int32_t> erase;   // [size, 4] top, left, height, width; empty if unused
  std::span<std::byte> block;      // from the first label to the last pixel
};

struct LoaderOptions {
  int workers = 0;   // threads; 0 fills a batch inside next()
  int prefetch = 2;  // slots beyond the one in use
  std::uint64_t seed = 0;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  // one past the last step that will be asked for
  // false: evaluation, where no random transform is expected; one that is there draws the same
  // numbers in every epoch.
  bool augment = true;
  Allocate allocate;  // empty: plain memory
};

// What the loader did for the step records.
struct LoaderTimes {
  double wait_ms = 0;  // that next() was blocked, since the last call
  std::int64_t read_bytes = 0;
};

class Loader {
 public:
  // `source` and `pipeline` outlive the loader.
  Loader(const Source& source, const Pipeline& pipeline, const Sampler& sampler,
         LoaderOptions options);
  ~Loader();  // stops and joins the threads
  Loader(const Loader&) = delete;

  int height() const;
  int width() const;
  int channels() const;
  int slots() const;              // of the ring: prefetch + 1, two at the least
  std::int64_t capacity() const;  // samples that a slot holds: the largest share of a step
  std::size_t slot_bytes() const;
  bool erases() const;

  // The next step's batch, in step order; nullptr after last_step. Blocks until it is full. Valid
  // until `release`. Rethrows here what a worker threw, for the earliest sample in step order, and
  // again at each further call until `seek`. At most slots() batches may be held unreleased.
  const HostBatch* next();
  // Gives the oldest slot back for filling.
  void release();
  // Drops what was made ahead and goes on from `step`.
  void seek(std::int64_t step);
  LoaderTimes take_times();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

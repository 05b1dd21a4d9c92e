// Fills a ring of host buffers with one rank's share of each step, ahead of training, on threads.
// No torch here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/gpu/jpeg_layout.h"
#include "data/sample_maker.h"
#include "data/sampler.h"

namespace trainer::data {

// Host memory for a slot: page-locked where a GPU takes the copies. Owned; freed on destruction.
struct HostMemory {
  std::byte* data = nullptr;
  std::shared_ptr<void> owner;
};
using Allocate = std::function<HostMemory(std::size_t bytes)>;
// `memory::allocate_host`, for LoaderOptions.
Allocate host_allocator(bool pinned);

// A sample that could not be used, and what was done about it.
struct BadSample {
  std::int64_t index = 0;
  std::string name;  // its file
  std::string reason;
  std::optional<std::int64_t> replaced_by;  // index; absent where it was left out
};

// A JPEG file whose decoding is left to the GPU.
struct EncodedJpeg {
  bool present = false;  // else the sample's pixels are in the batch's images
  std::int64_t index = 0;
  std::vector<std::uint8_t> bytes;
  JpegLayout layout;
  int orientation = 1;  // EXIF's, to be applied
  SamplePlan plan;
};

// A filled slot of the ring. Buffers keep their addresses for the loader's whole life, and stand in
// one block in the order labels, weights, erase, images: the parts before the images take the room
// of the slot's capacity, so that they have the same offsets in every slot and one copy moves them
// all.
struct HostBatch {
  std::int64_t step = 0;
  StepPlace place;
  std::int64_t size = 0;           // samples in it: place.share.size(), less those left out
  double weight = 0;               // the sum of their weights
  std::span<std::uint8_t> images;  // [size, height, width, channels], packed
  std::span<std::int64_t> labels;  // [size]
  std::span<float> weights;        // [size]; empty where all are 1
  std::span<std::int32_t> erase;   // [size, 4] top, left, height, width; empty if unused
  std::span<std::byte> block;      // from the first label to the last pixel
  std::span<EncodedJpeg> encoded;  // [size] with LoaderOptions::leave_jpeg, else empty
  std::vector<BadSample> bad;      // in the order of their positions
};

struct LoaderOptions {
  int workers = 0;   // threads; 0 fills a batch inside next()
  int prefetch = 2;  // slots beyond the one in use
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  // one past the last step that will be asked for
  SampleOptions samples;
  config::BadSample on_bad_sample = config::BadSample::fail;
  // With `skip`, whether a batch may come out without any sample (evaluation); else one of its
  // samples is replaced then.
  bool may_be_empty = false;
  // Leave the decoding of JPEG files that its hardware takes to the GPU.
  bool leave_jpeg = false;
  Allocate allocate;  // empty: plain memory
};

// What the loader did for the step records.
struct LoaderTimes {
  double wait_ms = 0;  // that next() was blocked, since the last call
  StageTimes stages;   // the sum over all threads
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
  bool weighted() const;
  bool leaves_jpeg() const;  // see LoaderOptions

  // The next step's batch, in step order; nullptr after last_step. Blocks until it is full. Valid
  // until `release`. Bad samples are dealt with as LoaderOptions::on_bad_sample says. Rethrows here
  // what a worker threw, for the earliest sample in step order, and again at each further call
  // until `seek`. At most slots() batches may be held unreleased.
  const HostBatch* next();
  // Makes row `row` of a batch that is held on this thread instead of leaving it to the GPU. A
  // sample that turns out bad now is replaced, where bad samples do not end the run.
  void make_here(const HostBatch& batch, std::int64_t row);
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

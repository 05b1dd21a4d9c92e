// The measurements behind `trainer bench`. Each takes at least BenchRig::seconds and does not count
// what only the start of a run costs. All throw Error(data) for a sample that is bad, where the
// experiment says that such a sample ends the run.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "config/experiment.h"
#include "data/sampler.h"
#include "engine/opened_data.h"

namespace trainer::engine {

struct Measured {
  std::int64_t images = 0;
  double seconds = 0;
  // As the source keeps them; of `copy`, the batches'. 0 where the training step sets the pace, so
  // that batches made ahead would count.
  std::int64_t bytes = 0;
  double cpu_seconds = 0;  // of all threads of the process; 0 where they do other things too
};

struct BenchRig {
  const config::Experiment& experiment;
  at::Device device;
  const OpenedData& train;     // as the run has it
  const OpenedData& uncached;  // the same without a cache
  const data::Sampler& sampler;
  double seconds;

  int threads() const;  // that read, decode and transform
};

Measured measure_read(const BenchRig& rig);

// Each one's share of the time in which the threads do both: what it would be alone.
struct DecodeAndTransform {
  Measured decode, transform;
};
DecodeAndTransform measure_decode_and_transform(const BenchRig& rig);

// `decode` is cpu or gpu, as in the three below; gpu leaves to the GPU what it can decode.
Measured measure_host(const BenchRig& rig, config::Decode decode);

// On CUDA only.
Measured measure_copy(const BenchRig& rig);
// As model input on the device, normalised.
Measured measure_delivered(const BenchRig& rig, config::Decode decode);

// These build the model.
Measured measure_step(const BenchRig& rig);
Measured measure_all(const BenchRig& rig, config::Decode decode);

}  // namespace trainer::engine

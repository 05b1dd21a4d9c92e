// `trainer bench`: how fast each part of a run is, alone and together. The header needs no torch
// (see engine/train.h).
#pragma once

#include <array>
#include <string>
#include <vector>

#include "config/experiment.h"

namespace trainer::engine {

// In the order in which they are measured.
//   read       fetching the samples' bytes, on all of the loader's threads
//   decode     header and needed pixels of files that are in memory, on these threads
//   transform  the 8-bit transforms of pictures that are in memory, on these threads
//   host       the loader alone, which does the three above
//   copy       a host batch to the GPU
//   delivered  loader and copy (and the GPU's decoding): images on the device
//   step       the training step alone, on one batch that stays on the device
//   all        as in training
inline constexpr std::array<const char*, 8> kBenchStages{"read", "decode",    "transform", "host",
                                                         "copy", "delivered", "step",      "all"};

struct BenchOptions {
  config::Experiment experiment;    // checked
  std::vector<std::string> stages;  // of kBenchStages; empty: all of them
  double seconds = 3;               // for each stage, at the least
  bool json = false;                // one JSON object instead of a table
};

// Measures the stages that apply to the experiment and the machine, prints them to standard output,
// and says what bounds the run. Writes no file. Returns the exit code. Throws Error.
int bench(const BenchOptions& options);

inline constexpr const char* kBenchSymbol = "trainer_engine_bench";
using BenchFunction = int (*)(const BenchOptions&);

}  // namespace trainer::engine

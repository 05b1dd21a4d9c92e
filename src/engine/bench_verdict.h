// What the figures of `trainer bench` mean. No torch here.
#pragma once

#include <optional>
#include <string>

#include "config/experiment.h"

namespace trainer::engine {

// Images a second; absent where it was not measured.
struct BenchRates {
  std::optional<double> read, decode, transform, host, copy, delivered, step, all;
};

struct BenchSetting {
  bool cuda = false;
  int workers = 1;          // threads of the loader
  int cpus = 1;             // that this process may use
  bool encoded = true;      // the source holds image files
  bool cached = false;      // data.loader.cache is on
  bool fp32 = true;         // precision.mode
  bool gpu_decode = false;  // the rates are with data.loader.decode: gpu
  // Images a second delivered with the GPU's decoding, where the rates are without it.
  std::optional<double> with_gpu_decode;
};

// One or two sentences: what bounds the run, by how much, and what to change. Needs `step` and one
// of `delivered` and `host`; says what is missing where it has not got them.
std::string bench_verdict(const BenchRates& rates, const BenchSetting& setting);

// 12345.6 -> "12,346".
std::string with_separators(double value);

}  // namespace trainer::engine

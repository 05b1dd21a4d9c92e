// The samples that a run left out or replaced: written to bad_samples.jsonl, counted, and the end
// of the run where they are too many.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "data/loader.h"
#include "monitor/json_lines.h"

namespace trainer::engine {

// Of one source.
class BadSamples {
 public:
  // `source` is "train" or "val", with `samples`. Nothing is written without a `file`; a resumed
  // run knows again what the file holds of steps up to `resumed_step`.
  BadSamples(std::string source, std::int64_t samples, double max_share);
  void write_to(monitor::JsonLines* file) { file_ = file; }
  // What the file of the run so far says; lines of another source are passed over.
  void remember(const nlohmann::json& line);

  // What a batch of `step` had. Throws Error(data) where more than `max_share` of the source's
  // samples are bad.
  void take(std::int64_t step, const std::vector<data::BadSample>& bad);

  std::int64_t different() const { return static_cast<std::int64_t>(indices_.size()); }

 private:
  std::string source_;
  std::int64_t samples_;
  double max_share_;
  monitor::JsonLines* file_ = nullptr;
  std::set<std::int64_t> indices_;
};

}  // namespace trainer::engine

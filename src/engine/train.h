// The door to everything that needs LibTorch. The header needs none, and the code behind it is a
// shared object of its own, so that a mistake in an experiment file is reported before any of it
// is loaded.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment.h"

namespace trainer::engine {

struct TrainOptions {
  config::Experiment experiment;  // checked
  std::string resolved;           // the same as YAML with every default, for config.yaml
  std::optional<std::filesystem::path> output;
  std::optional<std::string> resume;  // "auto" or the path of a run or a checkpoint
  bool dry_run = false;
  bool allow_changes = false;
  std::vector<std::string> command;  // as typed, for environment.json
};

// Trains, and returns the exit code of a run that ended as asked or by a signal. Throws Error.
int train(const TrainOptions& options);

// The name under which the shared object exports `train`, and its type.
inline constexpr const char* kTrainSymbol = "trainer_engine_train";
using TrainFunction = int (*)(const TrainOptions&);

}  // namespace trainer::engine

// The options of every command that uses a checkpoint.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "engine/use.h"

namespace trainer::cli {

struct CheckpointArguments {
  std::string path;
  std::vector<std::string> overrides;
  bool raw = false;

  engine::UsedCheckpoint used() const { return {path, overrides, !raw}; }
};

inline void add_checkpoint_options(CLI::App& app, CheckpointArguments& arguments) {
  app.add_option("--checkpoint", arguments.path,
                 "A checkpoint's folder, or a run's: its best one, else its newest")
      ->required();
  app.add_option("--set", arguments.overrides,
                 "Override a setting of its experiment, as key.path=value (may be repeated)")
      ->take_all();
  app.add_flag("--no-ema", arguments.raw,
               "Take the weights as trained where the run has averages of them (optim.ema)");
}

}  // namespace trainer::cli

#include "cli/train_command.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/engine_library.h"
#include "config/load.h"
#include "engine/train.h"

namespace trainer::cli {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string output;
  std::string resume;
  bool dry_run = false;
  bool allow_changes = false;
};

int train(const Arguments& arguments, const std::vector<std::string>& command) {
  engine::TrainOptions options;
  options.experiment = config::load_or_throw(arguments.config, arguments.overrides);
  options.resolved = config::print(options.experiment);
  if (!arguments.output.empty()) options.output = arguments.output;
  if (!arguments.resume.empty()) options.resume = arguments.resume;
  options.dry_run = arguments.dry_run;
  options.allow_changes = arguments.allow_changes;
  options.command = command;
  return engine_function<engine::TrainFunction>(engine::kTrainSymbol)(options);
}

}  // namespace

void add_train_command(CLI::App& app, std::vector<std::string> command, int& code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* train_app = app.add_subcommand("train", "Train what an experiment file describes");
  train_app->add_option("--config", arguments->config, "The experiment file (YAML)")->required();
  train_app
      ->add_option("--set", arguments->overrides,
                   "Override a setting, as key.path=value (may be repeated)")
      ->take_all();
  train_app->add_option("--output", arguments->output,
                        "The run's folder (default: runs/<name>/<NNN>)");
  train_app->add_option("--resume", arguments->resume,
                        "auto: continue, or start where there is nothing yet; or the path of a run "
                        "or of a checkpoint");
  train_app->add_flag("--dry-run", arguments->dry_run,
                      "Build everything, train two steps in memory, report, write nothing");
  train_app->add_flag("--allow-changes", arguments->allow_changes,
                      "Resume although the data or the global batch has changed");
  train_app->footer(
      "Example:\n  trainer train --config configs/cifar10.yaml --set batch.global=512 "
      "--output runs/big --resume auto");
  train_app->callback(
      [arguments, command = std::move(command), &code] { code = train(*arguments, command); });
}

}  // namespace trainer::cli

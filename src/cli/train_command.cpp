#include "cli/train_command.h"

#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>

#include "config/load.h"
#include "core/error.h"
#include "engine/train.h"

namespace trainer::cli {
namespace {

constexpr const char* kLibrary = "libtrainer_engine.so";

// ../lib beside this program's folder; else wherever the dynamic linker looks. By its path, since
// the program's own RUNPATH is not asked where a sanitizer stands between it and dlopen.
std::string library_path() {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failure);
  const auto beside = program.parent_path().parent_path() / "lib" / kLibrary;
  return !failure && std::filesystem::exists(beside, failure) ? beside.string() : kLibrary;
}

// Loading LibTorch takes longer than checking a file does, so it waits until the file is good.
engine::TrainFunction load_engine() {
  void* library = dlopen(library_path().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw Error(Exit::device,
                std::string("the training engine cannot be loaded: ") + dlerror() +
                    "\nIt needs LibTorch's libraries. In a build tree, run scripts/build.sh again; "
                    "from a package, start bin/trainer through its launcher, with LIBTORCH set to "
                    "an installed LibTorch.");
  }
  void* symbol = dlsym(library, engine::kTrainSymbol);
  if (symbol == nullptr)
    throw Error(Exit::device, std::string(kLibrary) + " is of another version: " + dlerror());
  return reinterpret_cast<engine::TrainFunction>(symbol);
}

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
  return load_engine()(options);
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

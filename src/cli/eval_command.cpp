#include "cli/eval_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/checkpoint_options.h"
#include "cli/engine_library.h"
#include "engine/use.h"

namespace trainer::cli {
namespace {

struct Arguments {
  CheckpointArguments checkpoint;
  std::string data = "val";
  bool json = false;
};

int evaluate(const Arguments& arguments) {
  engine::EvalOptions options;
  options.checkpoint = arguments.checkpoint.used();
  options.train = arguments.data == "train";
  options.json = arguments.json;
  return engine_function<engine::EvaluateFunction>(engine::kEvaluateSymbol)(options);
}

}  // namespace

void add_eval_command(CLI::App& app, int& code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* eval = app.add_subcommand("eval", "Measure a checkpoint on its validation data");
  add_checkpoint_options(*eval, arguments->checkpoint);
  eval->add_option("--data", arguments->data,
                   "val, or train: the training data without augmentation (default: val)")
      ->check(CLI::IsMember({"val", "train"}));
  eval->add_flag("--json", arguments->json, "Print one JSON object");
  eval->footer("Example:\n  trainer eval --checkpoint runs/exp/001 --set data.val.path=/data/test");
  eval->callback([arguments, &code] { code = evaluate(*arguments); });
}

}  // namespace trainer::cli

#include "cli/export_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/checkpoint_options.h"
#include "cli/engine_library.h"
#include "core/error.h"
#include "engine/export.h"

namespace trainer::cli {
namespace {

struct Arguments {
  CheckpointArguments checkpoint;
  std::string format;
  std::string output;
  bool adapters = false;
  bool merge = true;  // the other choice than `adapters`, for those who like to say it
};

engine::ExportOptions::Format format_of(const std::string& name) {
  using Format = engine::ExportOptions::Format;
  if (name == "torchscript") return Format::torchscript;
  return name == "huggingface" ? Format::huggingface : Format::safetensors;
}

int run(const Arguments& arguments) {
  if (arguments.adapters && arguments.format != "safetensors")
    throw Error(Exit::usage, "--adapters goes with --format safetensors");
  engine::ExportOptions options;
  options.checkpoint = arguments.checkpoint.used();
  options.format = format_of(arguments.format);
  options.output = arguments.output;
  options.adapters = arguments.adapters;
  return engine_function<engine::ExportFunction>(engine::kExportSymbol)(options);
}

}  // namespace

void add_export_command(CLI::App& app, int& code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("export", "Write a checkpoint's model for other programs");
  add_checkpoint_options(*command, arguments->checkpoint);
  command
      ->add_option("--format", arguments->format,
                   "safetensors: the weights, a file; torchscript: a file for torch.jit.load; "
                   "huggingface: a folder for from_pretrained")
      ->required()
      ->check(CLI::IsMember({"safetensors", "torchscript", "huggingface"}));
  command->add_option("--output", arguments->output, "What to make: a file, or a folder")
      ->required();
  CLI::Option* adapters =
      command->add_flag("--adapters", arguments->adapters,
                        "Of a run with model.lora: the adapters alone, as a folder for peft");
  command
      ->add_flag("--merge", arguments->merge,
                 "Add adapters to the weights that they adapt (the default)")
      ->excludes(adapters);
  command->footer(
      "Example:\n  trainer export --checkpoint runs/exp/001 --format huggingface --output my-gpt2");
  command->callback([arguments, &code] { code = run(*arguments); });
}

}  // namespace trainer::cli

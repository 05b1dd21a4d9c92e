#include "cli/predict_command.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/checkpoint_options.h"
#include "cli/engine_library.h"
#include "core/error.h"
#include "engine/use.h"

namespace trainer::cli {
namespace {

struct Arguments {
  CheckpointArguments checkpoint;
  std::vector<std::string> inputs;
  std::string output;
  std::int64_t top = 0;  // --top
  engine::PredictTextOptions text;
};

int predict_images(const Arguments& arguments) {
  engine::PredictImagesOptions options;
  options.checkpoint = arguments.checkpoint.used();
  options.inputs.assign(arguments.inputs.begin(), arguments.inputs.end());
  if (!arguments.output.empty()) options.output = arguments.output;
  options.top = arguments.top;
  return engine_function<engine::PredictImagesFunction>(engine::kPredictImagesSymbol)(options);
}

int predict_text(const Arguments& arguments) {
  engine::PredictTextOptions options = arguments.text;
  options.checkpoint = arguments.checkpoint.used();
  return engine_function<engine::PredictTextFunction>(engine::kPredictTextSymbol)(options);
}

void add_image_options(CLI::App& app, Arguments& arguments) {
  const auto group = "Images";
  app.add_option("--input", arguments.inputs, "Image files, and folders of them")->group(group);
  app.add_option("--output", arguments.output, "The CSV to write (default: standard output)")
      ->needs("--input")
      ->group(group);
  app.add_option("--top", arguments.top,
                 "The K likeliest classes (default: a column for every class)")
      ->needs("--input")
      ->check(CLI::PositiveNumber)
      ->group(group);
}

void add_text_options(CLI::App& app, engine::PredictTextOptions& text) {
  const auto group = "Text";
  const auto add = [&](const char* name, auto& value, const char* help) {
    return app.add_option(name, value, help)->needs("--prompt")->group(group);
  };
  app.add_option("--prompt", text.prompt, "What the text begins with")
      ->excludes("--input")
      ->group(group);
  add("--max-tokens", text.max_tokens, "How much to write at the most (default: 200)")
      ->check(CLI::PositiveNumber);
  add("--temperature", text.temperature, "0: always the likeliest token (default: 1)")
      ->check(CLI::Range(0.0, 100.0));
  add("--top-k", text.top_k, "Draw among the K likeliest tokens (default: all)")
      ->check(CLI::PositiveNumber);
  add("--top-p", text.top_p, "Draw among the likeliest tokens of this probability (default: 1)")
      ->check(CLI::Range(0.0, 1.0));
  add("--seed", text.seed, "The same seed gives the same text (default: 1)");
  add("--samples", text.samples, "How many texts (default: 1)")->check(CLI::PositiveNumber);
}

}  // namespace

void add_predict_command(CLI::App& app, int& code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("predict", "Classify images, or write text, with a checkpoint");
  add_checkpoint_options(*command, arguments->checkpoint);
  add_image_options(*command, *arguments);
  add_text_options(*command, arguments->text);
  command->footer(
      "Exit code 4 where images could not be used; the others are predicted all the same.\n"
      "Examples:\n  trainer predict --checkpoint runs/pets/001 --input photos --output pets.csv\n"
      "  trainer predict --checkpoint runs/gpt/001 --prompt \"ROMEO:\" --temperature 0.8");
  command->callback([arguments, command, &code] {
    const bool images = command->count("--input") > 0;
    if (!images && command->count("--prompt") == 0)
      throw Error(Exit::usage, "predict needs --input (images) or --prompt (text)");
    code = images ? predict_images(*arguments) : predict_text(*arguments);
  });
}

}  // namespace trainer::cli

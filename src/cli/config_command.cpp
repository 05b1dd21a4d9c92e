#include "cli/config_command.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "config/load.h"

namespace trainer::cli {
namespace {

struct Arguments {
  std::string file;
  std::vector<std::string> overrides;
};

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// A command that reads an experiment file, given plainly or with --config.
CLI::App* add_file_command(CLI::App* parent, const std::string& name, const std::string& help,
                           const std::shared_ptr<Arguments>& arguments) {
  CLI::App* app = parent->add_subcommand(name, help);
  app->add_option("file,--config", arguments->file, "The experiment file (YAML)")->required();
  app->add_option("--set", arguments->overrides, "Override a setting, as key.path=value")
      ->take_all();
  app->footer("Example:\n  trainer config " + name + " configs/digits.yaml");
  return app;
}

}  // namespace

void add_config_command(CLI::App& app, int& code) {
  CLI::App* config_app = app.add_subcommand("config", "Check and describe experiment files");
  config_app->require_subcommand(1);
  config_app->footer("Example:\n  trainer config check configs/digits.yaml");

  auto arguments = std::make_shared<Arguments>();
  add_file_command(config_app, "check", "Report every error of a file at once", arguments)
      ->callback([arguments, &code] {
        const config::Experiment experiment =
            config::load_or_throw(arguments->file, arguments->overrides);
        put(arguments->file + ": ok, " + experiment.name + "\n");
        code = 0;
      });
  add_file_command(config_app, "print", "Print a file with every default filled in", arguments)
      ->callback([arguments, &code] {
        put(config::print(config::load_or_throw(arguments->file, arguments->overrides)));
        code = 0;
      });
  CLI::App* schema = config_app->add_subcommand("schema", "Print the JSON schema of the file");
  schema->footer("Example:\n  trainer config schema > trainer.schema.json");
  schema->callback([&code] {
    put(config::schema());
    code = 0;
  });
  CLI::App* reference =
      config_app->add_subcommand("reference", "Print the reference of every field, as Markdown");
  reference->footer("Example:\n  trainer config reference > config.md");
  reference->callback([&code] {
    put(config::reference());
    code = 0;
  });
}

}  // namespace trainer::cli

#include "cli/cli.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/bench_command.h"
#include "cli/config_command.h"
#include "cli/data_command.h"
#include "cli/eval_command.h"
#include "cli/export_command.h"
#include "cli/predict_command.h"
#include "cli/train_command.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace trainer::cli {
namespace {

constexpr const char* kFooter = R"(Exit codes:
  0 done   2 wrong command line   3 configuration   4 data   5 device or software stack
  6 out of memory   7 loss not finite   9 checkpoint or output could not be read or written
  130/143 stopped by SIGINT/SIGTERM after saving (a second signal stops at once)   70 our own bug

Examples:
  trainer --config configs/digits.yaml
  trainer --config exp.yaml --set optim.lr=3e-4 --set seed=2
  trainer --config exp.yaml --output runs/exp --resume auto
  trainer config check exp.yaml
  trainer data inspect --config exp.yaml --sheet batch.png
  trainer eval --checkpoint runs/exp/001
  trainer predict --checkpoint runs/exp/001 --input photos --output photos.csv
  trainer export --checkpoint runs/exp/001 --format safetensors --output exp.safetensors
  trainer bench --config exp.yaml)";

// `trainer --config ...` is `trainer train --config ...`.
std::vector<std::string> with_subcommand(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool help = arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" ||
                    arguments[0] == "--version";
  if (!help && arguments[0].starts_with("-")) arguments.insert(arguments.begin(), "train");
  return arguments;
}

void report(const Error& failure) { log::error(failure.what()); }

int report_bug(const std::exception& failure) {
  std::string type = typeid(failure).name();
  if (char* name = abi::__cxa_demangle(type.c_str(), nullptr, nullptr, nullptr)) {
    type = name;
    std::free(name);
  }
  log::error("this is a bug of ours, please report it with the run's config.yaml\n  " + type +
             ": " + failure.what());
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  return static_cast<int>(Exit::internal);
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

std::string unknown(const std::string& what, const std::string& word,
                    const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return "unknown " + what + " " + word + (near.empty() ? "" : "; did you mean " + near + "?");
}

// Where an argument is no command or option of the command it stands after, `message` becomes the
// sentence that says so: CLI11 reports what is missing before what is wrong. Returns the command
// line's last command.
const CLI::App* find_misspelling(const CLI::App& app, const std::vector<std::string>& arguments,
                                 std::string& message) {
  const CLI::App* command = &app;
  for (const std::string& argument : arguments) {
    const std::vector<std::string> commands = command_names(*command);
    if (argument.starts_with("--")) {
      const std::string word = argument.substr(0, argument.find('='));
      const std::vector<std::string> options = option_names(*command);
      if (std::find(options.begin(), options.end(), word) == options.end()) {
        message = unknown("option", word, options);
        break;
      }
    } else if (std::find(commands.begin(), commands.end(), argument) != commands.end()) {
      command = command->get_subcommand(argument);
    } else if (!commands.empty()) {
      message = unknown("command", argument, commands);
      break;
    }
  }
  return command;
}

int report_usage(const CLI::App& app, const CLI::ParseError& failure,
                 const std::vector<std::string>& arguments) {
  if (failure.get_exit_code() == 0) {
    app.exit(failure);  // prints the help or the version that was asked for
    return static_cast<int>(Exit::done);
  }
  if (arguments.empty()) {
    std::cerr << app.help();
    return static_cast<int>(Exit::usage);
  }
  std::string message = failure.what();
  const CLI::App* command = find_misspelling(app, arguments, message);
  std::string path = "--help";
  for (const CLI::App* part = command; part != nullptr; part = part->get_parent())
    path.insert(0, part->get_name() + " ");
  log::error(message + "\nSee `" + path + "`.");
  return static_cast<int>(Exit::usage);
}

}  // namespace

int run(int argc, const char* const* argv) {
  CLI::App app("Trains models on NVIDIA GPUs from one YAML file.", "trainer");
  app.require_subcommand(1);
  app.set_version_flag("--version", "trainer " TRAINER_VERSION);
  app.footer(kFooter);
  app.get_formatter()->column_width(34);
  int code = 0;
  add_train_command(app, {argv, argv + argc}, code);
  add_config_command(app, code);
  add_data_command(app, code);
  add_eval_command(app, code);
  add_predict_command(app, code);
  add_export_command(app, code);
  add_bench_command(app, code);
  std::vector<std::string> arguments = with_subcommand(argc, argv);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
    return code;
  } catch (const CLI::ParseError& failure) {
    return report_usage(app, failure, arguments);
  } catch (const Error& failure) {
    report(failure);
    return static_cast<int>(failure.code());
  } catch (const std::exception& failure) {
    return report_bug(failure);
  }
}

}  // namespace trainer::cli

#include "cli/cli.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>

#include "cli/config_command.h"
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
  trainer config check exp.yaml)";

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

// CLI11 says what is wrong; the nearest right spelling is ours.
int report_usage(const CLI::App& app, const CLI::ParseError& failure,
                 const std::vector<std::string>& arguments) {
  if (failure.get_exit_code() == 0) {
    app.exit(failure);  // prints the help or the version that was asked for
    return static_cast<int>(Exit::done);
  }
  std::string message = failure.what();
  const CLI::App* command = &app;
  for (const CLI::App* sub : app.get_subcommands()) command = sub;
  std::vector<std::string> known;
  for (const CLI::Option* option : command->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  for (const std::string& argument : arguments) {
    const std::string word = argument.substr(0, argument.find('='));
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    const std::string near = nearest(word, known);
    if (!near.empty() && message.find(word) != std::string::npos) {
      message += "; did you mean " + near + "?";
      break;
    }
  }
  log::error(message + "\nSee `" + command->get_display_name() + " --help`.");
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

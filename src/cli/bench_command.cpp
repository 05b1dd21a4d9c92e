#include "cli/bench_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/engine_library.h"
#include "config/load.h"
#include "core/text.h"
#include "engine/bench.h"

namespace trainer::cli {
namespace {

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
  std::vector<std::string> stages;
  double seconds = 3;
  bool json = false;
};

std::vector<std::string> stage_names() {
  return {engine::kBenchStages.begin(), engine::kBenchStages.end()};
}

// For CLI11: what is wrong with the name of a stage; empty where nothing is.
std::string check_stage(const std::string& name) {
  const std::vector<std::string> names = stage_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return "";
  const std::string near = nearest(name, names);
  std::string all;
  for (const std::string& each : names) all += (all.empty() ? "" : ", ") + each;
  return "unknown stage " + name + (near.empty() ? "" : "; did you mean " + near + "?") +
         "\nStages are " + all + ".";
}

int bench(const Arguments& arguments) {
  engine::BenchOptions options;
  options.experiment = config::load_or_throw(arguments.config, arguments.overrides);
  options.stages = arguments.stages;
  options.seconds = arguments.seconds;
  options.json = arguments.json;
  return engine_function<engine::BenchFunction>(engine::kBenchSymbol)(options);
}

}  // namespace

void add_bench_command(CLI::App& app, int& code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* bench_app = app.add_subcommand(
      "bench", "Measure the input pipeline and the training step, alone and together");
  bench_app->add_option("--config", arguments->config, "The experiment file (YAML)")->required();
  bench_app
      ->add_option("--set", arguments->overrides,
                   "Override a setting, as key.path=value (may be repeated)")
      ->take_all();
  bench_app->add_option("--seconds", arguments->seconds, "For each stage (default: 3)")
      ->check(CLI::Range(0.001, 3600.0));
  bench_app
      ->add_option("--stages", arguments->stages,
                   "Only these, as a list with commas: read, decode, transform, host, copy, "
                   "delivered, step, all")
      ->delimiter(',')
      ->check(CLI::Validator(check_stage, ""));
  bench_app->add_flag("--json", arguments->json, "Print one JSON object");
  bench_app->footer(
      "Example:\n  trainer bench --config exp.yaml --set data.loader.workers=8 "
      "--stages host,delivered,step");
  bench_app->callback([arguments, &code] { code = bench(*arguments); });
}

}  // namespace trainer::cli

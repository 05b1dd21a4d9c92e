#include "engine/train.h"

#include <torch/headeronly/version.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <limits>

#include "config/load.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "engine/device.h"
#include "engine/dry_run.h"
#include "engine/failures.h"
#include "engine/loop.h"
#include "engine/model_set_up.h"
#include "engine/session.h"
#include "engine/signals.h"
#include "memory/memory.h"
#include "monitor/json_lines.h"
#include "monitor/run_folder.h"
#include "monitor/sinks.h"
#include "precision/precision.h"

namespace trainer::engine {
namespace {

namespace fs = std::filesystem;

// Where the run goes on: its folder if it is known already, and the checkpoint to continue from.
struct Origin {
  std::optional<monitor::RunFolder> folder;
  std::optional<checkpoint::Loaded> checkpoint;
};

// Note [Resume]: `auto` and a run's folder continue in that folder. A single checkpoint starts a
// new run that continues from it, since its own run may hold later ones.
Origin find_origin(const TrainOptions& options) {
  Origin origin;
  if (!options.resume) return origin;
  const std::string& name = options.experiment.name;
  if (*options.resume == "auto") {
    origin.folder.emplace(monitor::RunFolder::open(options.output, name, /*resume=*/true));
    origin.checkpoint = checkpoint::load_newest(origin.folder->checkpoints());
    return origin;
  }
  const fs::path path = *options.resume;
  if (!fs::exists(path))
    throw Error(Exit::storage, "--resume " + path.string() + ": there is no such folder");
  if (fs::exists(path / "manifest.json")) {
    origin.checkpoint = checkpoint::load_checkpoint(path);
    return origin;
  }
  if (options.output && fs::absolute(*options.output) != fs::absolute(path)) {
    throw Error(Exit::usage, "--resume names the run " + path.string() +
                                 ", which continues in its own folder; leave --output out");
  }
  if (!fs::exists(path / "checkpoints"))
    throw Error(Exit::storage, "--resume " + path.string() + ": this is no run and no checkpoint");
  origin.folder.emplace(monitor::RunFolder::open(path, name, /*resume=*/true));
  origin.checkpoint = checkpoint::load_newest(origin.folder->checkpoints());
  if (!origin.checkpoint)
    throw Error(Exit::storage, "--resume " + path.string() + ": it holds no checkpoint");
  return origin;
}

// What a resumed run must agree with. A difference would change the data a step sees without a
// word, so it is refused unless the user says otherwise.
void check_identity(const nlohmann::json& then, const nlohmann::json& now, bool allow_changes) {
  std::string differences;
  for (const auto& [key, value] : now.items()) {
    if (!then.contains(key) || then.at(key) == value) continue;
    differences +=
        "\n  " + key + ": " + then.at(key).dump() + " in the checkpoint, " + value.dump() + " now";
  }
  if (differences.empty()) return;
  if (!allow_changes) {
    throw Error(Exit::config,
                "the checkpoint is of another experiment, so the run would not continue exactly:" +
                    differences +
                    "\nGive --allow-changes to continue all the same, or another "
                    "--output to start afresh.");
  }
  log::warning("continuing although the experiment has changed:" + differences);
}

// Where the run that is continued decoded its images; runs of earlier versions did so on the CPU.
std::optional<config::Decode> decode_of(const std::optional<checkpoint::Loaded>& checkpoint) {
  if (!checkpoint) return std::nullopt;
  const auto identity = checkpoint->values.value("identity", nlohmann::json::object());
  return identity.value("data.loader.decode", "cpu") == name_of(config::Decode::gpu)
             ? config::Decode::gpu
             : config::Decode::cpu;
}

Progress restore(const checkpoint::Loaded& checkpoint, Session& session, bool allow_changes) {
  if (!checkpoint.values.contains("progress") || !checkpoint.values.contains("identity")) {
    throw Error(Exit::storage, checkpoint.path.string() +
                                   ": state.json holds no training run to continue; "
                                   "model.weights loads weights alone");
  }
  check_identity(checkpoint.values.at("identity"), session.identity(), allow_changes);
  for (const auto& [name, part] : session.checkpoint_parts()) {
    try {
      part->load(checkpoint.part(name));
    } catch (const Error& failure) {
      throw Error(Exit::storage, checkpoint.path.string() + ": " + failure.what());
    }
  }
  return Progress::from_json(checkpoint.values.at("progress"));
}

std::vector<std::unique_ptr<monitor::Sink>> make_sinks(const config::Log& config,
                                                       const monitor::RunFolder& folder,
                                                       const Plan& plan, std::int64_t step) {
  std::vector<std::unique_ptr<monitor::Sink>> sinks;
  if (config.jsonl) sinks.push_back(monitor::jsonl_sink(folder.path() / "metrics.jsonl", step));
  if (config.csv) sinks.push_back(monitor::csv_sink(folder.path() / "metrics.csv", step));
  if (config.tensorboard) sinks.push_back(monitor::tensorboard_sink(folder.path(), step));
  using config::Console;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  monitor::ConsoleOptions console;
  console.quiet = config.console == Console::quiet;
  console.progress =
      config.console == Console::progress || (config.console == Console::automatic && terminal);
  console.colour = terminal && std::getenv("NO_COLOR") == nullptr;
  console.total_steps = plan.total_steps;
  console.total_seconds = plan.total_seconds;
  sinks.push_back(monitor::console_sink(console));
  return sinks;
}

void write_environment(const TrainOptions& options, const monitor::RunFolder& folder,
                       const ChosenDevice& device) {
  std::vector<const char*> arguments;
  for (const std::string& argument : options.command) arguments.push_back(argument.c_str());
  nlohmann::json environment =
      monitor::environment(static_cast<int>(arguments.size()), arguments.data());
  environment["torch"] = TORCH_VERSION;
  environment["device"] = device.line;
  folder.write("environment.json", environment.dump(2) + "\n");
}

nlohmann::json summary(const std::string& status, Exit code, const Progress& progress,
                       const Session& session) {
  nlohmann::json json{{"status", status},
                      {"exit_code", static_cast<int>(code)},
                      {"step", progress.step},
                      {"epochs", static_cast<double>(progress.step) /
                                     static_cast<double>(session.plan().steps_per_epoch)},
                      {"seconds", progress.seconds},
                      {"skipped_updates", progress.skipped},
                      {"stopped_early", progress.stopped_early},
                      {"evaluated_step", progress.evaluated_step}};
  for (const auto& [name, value] : progress.last_metrics.items()) json[name] = value;
  if (progress.best.value)
    json["best"] = {{"value", *progress.best.value}, {"step", progress.best.step}};
  return json;
}

std::string result_line(const Progress& progress, const monitor::RunFolder& folder) {
  std::string line =
      "done: " + std::to_string(progress.step) + " steps in " + human_seconds(progress.seconds);
  for (const auto& [name, value] : progress.last_metrics.items()) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), ", %s %.4f", name.c_str(), value.get<double>());
    line += text.data();
  }
  return line + "; the run is in " + folder.path().string();
}

Exit train_in(const TrainOptions& options, const ChosenDevice& device, Session& session,
              const monitor::RunFolder& folder, Progress progress) {
  const config::Experiment& experiment = options.experiment;
  const nlohmann::json about{{"experiment", options.resolved}, {"use", session.use()}};
  log::add_file(folder.path() / "trainer.log");
  folder.write("config.yaml", options.resolved);
  write_environment(options, folder, device);
  auto sinks = make_sinks(experiment.log, folder, session.plan(), progress.step);
  checkpoint::Store store({folder.checkpoints(), experiment.checkpoint.keep});
  log::info("output: " + folder.path().string());
  monitor::JsonLines bad_samples(folder.path() / "bad_samples.jsonl", progress.step, /*late=*/true,
                                 [&session](const nlohmann::json& line) {
                                   session.bad_train().remember(line);
                                   if (session.bad_val() != nullptr)
                                     session.bad_val()->remember(line);
                                 });
  session.bad_train().write_to(&bad_samples);
  if (session.bad_val() != nullptr) session.bad_val()->write_to(&bad_samples);

  const std::int64_t last = session.plan().total_steps > 0
                                ? session.plan().total_steps
                                : std::numeric_limits<std::int64_t>::max();
  session.start(progress.step, last);
  Loop loop(experiment, session, store, sinks, std::move(progress), about);
  try {
    const Exit code = loop.run();
    const bool done = code == Exit::done;
    folder.write("summary.json",
                 summary(done ? "done" : "stopped", code, loop.progress(), session).dump(2) + "\n");
    log::info(done ? result_line(loop.progress(), folder)
                   : "stopped by a signal after step " + std::to_string(loop.progress().step) +
                         "; saved. Continue with --resume " + folder.path().string());
    return code;
  } catch (const Error& failure) {
    try {
      folder.write("summary.json",
                   summary("failed", failure.code(), loop.progress(), session).dump(2) + "\n");
    } catch (const Error&) {
      // On a full disk this fails as well; what failed first is what the user has to know.
    }
    throw;
  }
}

int train_checked(const TrainOptions& given) {
  TrainOptions options = given;
  if (std::holds_alternative<config::HuggingFace>(options.experiment.model)) {
    options.experiment = with_known_model(options.experiment);
    options.resolved = config::print(options.experiment);
  }
  const config::Experiment& experiment = options.experiment;
  const ChosenDevice device = choose_device(experiment);
  log::info(device.line);
  if (experiment.log.console == config::Console::quiet) log::set_console(false);
  memory::configure(experiment.memory);
  precision::configure(experiment.precision, device.device, experiment.deterministic);
  if (options.dry_run) {
    Session session(experiment, device.device, {});
    return dry_run(experiment, session);
  }
  install_signal_handlers();
  Origin origin = find_origin(options);
  Session session(experiment, device.device, {!origin.checkpoint, decode_of(origin.checkpoint)});
  for (const std::string& line : session.describe()) log::info(line);
  Progress progress;
  if (origin.checkpoint) {
    progress = restore(*origin.checkpoint, session, options.allow_changes);
    log::info("continuing from " + origin.checkpoint->path.string());
    origin.checkpoint.reset();  // its tensors are as large as the model and the optimiser
  }
  if (!origin.folder)
    origin.folder.emplace(
        monitor::RunFolder::open(options.output, experiment.name, /*resume=*/false));
  return static_cast<int>(train_in(options, device, session, *origin.folder, std::move(progress)));
}

}  // namespace

int train(const TrainOptions& options) {
  return with_own_failures([&options] { return train_checked(options); });
}

}  // namespace trainer::engine

// `trainer eval`.
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "core/error.h"
#include "distributed/strategy.h"
#include "engine/bad_samples.h"
#include "engine/decode_choice.h"
#include "engine/evaluation.h"
#include "engine/failures.h"
#include "engine/samples.h"
#include "engine/signals.h"
#include "engine/use.h"
#include "engine/use_checkpoint.h"
#include "objectives/objective.h"

namespace trainer::engine {
namespace {

config::Source without_augmentation(config::Source source) {
  std::visit(
      [](auto& kind) {
        if constexpr (requires { kind.transforms; })
          kind.transforms = engine::without_augmentation(kind.transforms);
      },
      source);
  return source;
}

const config::Source& evaluated_source(config::Experiment& experiment, bool train) {
  if (train) experiment.data.val = without_augmentation(experiment.data.train);
  if (!experiment.data.val) {
    throw Error(Exit::config,
                "the experiment has no data.val to evaluate; use --data train, or give one with "
                "--set data.val={kind: ...}");
  }
  return *experiment.data.val;
}

struct Evaluated {
  std::unique_ptr<Samples> samples;
  bool leave_jpeg = false;
};

Evaluated open_samples(const SavedRun& run, const config::Source& source) {
  Evaluated opened;
  if (const auto text = text_source(source)) {
    auto samples = std::make_unique<TextSamples>(*text, run.alphabet());
    samples->require_vocabulary(run.outputs());
    opened.samples = std::move(samples);
    return opened;
  }
  const config::Loader& loader = run.experiment.data.loader;
  auto samples = std::make_unique<ImageSamples>(
      open_data(source, loader, run.experiment.seed, /*augment=*/false));
  const std::int64_t has = samples->opened().source->classes();
  if (has > run.outputs()) {
    throw Error(Exit::data, samples->describe() + ": has " + std::to_string(has) +
                                " classes, and the model " + std::to_string(run.outputs()));
  }
  opened.leave_jpeg = run.decode == name_of(config::Decode::gpu) &&
                      why_not_for_gpu(samples->opened(), loader).empty();
  opened.samples = std::move(samples);
  return opened;
}

Metrics measure(const SavedRun& run, at::Device device, const config::Source& source) {
  const config::Experiment& experiment = run.experiment;
  const auto model = make_model(run, device);
  const Evaluated opened = open_samples(run, source);
  const auto objective = objectives::make_objective(experiment.objective, run.outputs());
  const auto strategy = distributed::single_process();
  BadSamples bad("val", opened.samples->size(), experiment.data.loader.max_bad_share);
  Evaluator evaluator({*model, *objective, *strategy, *opened.samples, bad}, experiment.precision,
                      experiment.batch.evaluate.value(), experiment.data.loader,
                      feed_options(run, device), opened.leave_jpeg && device.is_cuda());
  if (const auto* images = dynamic_cast<const ImageSamples*>(opened.samples.get())) {
    require_input(run, images->input_shape(evaluator.sampler(), experiment.data.loader),
                  "the images to evaluate");
  }
  install_signal_handlers();
  if (auto metrics = evaluator.run(run.step, stop_signal())) return std::move(*metrics);
  throw Error(stop_signal().load() == SIGINT ? Exit::interrupted : Exit::terminated,
              "stopped by a signal before the evaluation's end");
}

void print(const EvalOptions& options, const SavedRun& run, const Metrics& metrics) {
  const std::string set = options.train ? "train" : "val";
  const auto own_name = [&](const std::string& name) { return set + name.substr(name.find('/')); };
  nlohmann::ordered_json json{{"checkpoint", run.path.string()},
                              {"step", run.step},
                              {"data", set},
                              {"averaged_weights", run.averaged}};
  for (const auto& [name, value] : metrics) {
    json[own_name(name)] = value;
    if (!options.json) std::printf("%s %.6g\n", own_name(name).c_str(), value);
  }
  if (options.json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    std::printf("%s\n", json.dump(2, ' ', false, replace).c_str());
  }
  std::fflush(stdout);
}

int evaluate_checked(const EvalOptions& options) {
  SavedRun run = open_saved_run(options.checkpoint);
  const config::Source& source = evaluated_source(run.experiment, options.train);
  const at::Device device = start_using(run.experiment);
  print(options, run, measure(run, device, source));
  return static_cast<int>(Exit::done);
}

}  // namespace

int evaluate(const EvalOptions& options) {
  return with_own_failures([&options] { return evaluate_checked(options); });
}

}  // namespace trainer::engine

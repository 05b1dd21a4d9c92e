#include "engine/use_checkpoint.h"

#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

#include "checkpoint/store.h"
#include "config/load.h"
#include "core/error.h"
#include "core/log.h"
#include "data/images/transforms.h"
#include "data/sampler.h"
#include "data/sources/files.h"
#include "engine/device.h"
#include "engine/model_set_up.h"
#include "engine/opened_data.h"
#include "engine/samples.h"
#include "memory/memory.h"
#include "precision/precision.h"

namespace trainer::engine {
namespace {

namespace fs = std::filesystem;

checkpoint::Loaded load_from_run(const fs::path& checkpoints) {
  if (fs::exists(checkpoints / "best"))
    return checkpoint::load_checkpoint(fs::canonical(checkpoints / "best"));
  if (auto newest = checkpoint::load_newest(checkpoints)) return std::move(*newest);
  throw Error(Exit::storage, data::printable(checkpoints) + ": it holds no checkpoint");
}

checkpoint::Loaded load(const fs::path& path) {
  if (!fs::exists(path))
    throw Error(Exit::storage,
                "--checkpoint " + data::printable(path) + ": there is no such folder");
  if (fs::exists(path / "manifest.json")) return checkpoint::load_checkpoint(path);
  if (fs::is_directory(path / "checkpoints")) return load_from_run(path / "checkpoints");
  if (fs::is_directory(path) && fs::exists(path / "best")) return load_from_run(path);
  if (path.filename() == "checkpoints") return load_from_run(path);
  throw Error(Exit::storage, "--checkpoint " + data::printable(path) +
                                 ": this is no checkpoint and no run; give a run's folder, or one "
                                 "such as <run>/checkpoints/best");
}

config::Experiment experiment_of(const checkpoint::Loaded& checkpoint,
                                 const std::vector<std::string>& overrides) {
  const std::string name = (checkpoint.path / "state.json").string();
  config::Loaded loaded =
      config::load_text(checkpoint.values.at("experiment").get<std::string>(), name, overrides);
  if (loaded.problems.empty()) return std::move(loaded.experiment);
  std::string message = "the experiment in " + name + " cannot be used:";
  for (const config::Problem& problem : loaded.problems) message += "\n" + problem.text();
  throw Error(Exit::config, message);
}

// The averages in the place of the weights that they are of.
void take_averages(const checkpoint::Loaded& checkpoint, SavedRun& run) {
  for (const auto& [part, averages] : checkpoint.parts) {
    if (part != "ema") continue;
    run.averaged = true;
    for (NamedTensor& weight : run.weights.tensors)
      for (const NamedTensor& average : averages.tensors)
        if (average.name == weight.name) weight.value = average.value;
  }
}

struct Size {
  int height = 0, width = 0;
};

// Of every image of a source, where its kind fixes it.
std::optional<Size> fixed_size(const config::Source& source) {
  if (std::holds_alternative<config::Digits>(source)) return Size{8, 8};
  if (std::holds_alternative<config::Mnist>(source)) return Size{28, 28};
  if (std::holds_alternative<config::Cifar>(source)) return Size{32, 32};
  if (const auto* synthetic = std::get_if<config::Synthetic>(&source))
    return Size{static_cast<int>(synthetic->shape.at(1)), static_cast<int>(synthetic->shape.at(2))};
  return std::nullopt;
}

std::optional<Size> size_from_transforms(const config::Source& source) {
  const auto& transforms = config::images_of(source)->transforms;
  const data::Pipeline pipeline(transforms, static_cast<int>(channels_of(source)));
  if (const auto size = pipeline.output_size()) return Size{size->first, size->second};
  const auto start = fixed_size(source);
  if (!start) return std::nullopt;
  Stream random(0, StreamUse::augmentation, 0, 0);
  data::SamplePlan plan;
  pipeline.plan(start->height, start->width, random, plan);
  return Size{plan.final_height, plan.final_width};
}

// Where the classes have no names.
std::int64_t classes_of(const config::Experiment& experiment) {
  const config::Source& source = experiment.data.train;
  if (const auto* synthetic = std::get_if<config::Synthetic>(&source)) return synthetic->classes;
  if (const auto* cifar = std::get_if<config::Cifar>(&source)) return cifar->classes;
  return data::make_source(source, experiment.seed)->classes();
}

std::string describe(const models::InputShape& shape) {
  return std::to_string(shape.channels) + "x" + std::to_string(shape.height) + "x" +
         std::to_string(shape.width);
}

}  // namespace

bool SavedRun::is_language_model() const {
  return config::language_model_of(experiment.model) != nullptr;
}

std::vector<std::string> SavedRun::class_names() const {
  return use.value("classes", std::vector<std::string>{});
}

std::string SavedRun::alphabet() const { return use.value("alphabet", std::string()); }

std::int64_t SavedRun::outputs() const {
  if (is_language_model()) return use.at("vocabulary").get<std::int64_t>();
  if (const auto& wanted = config::common(experiment.model).classes) return *wanted;
  const auto named = static_cast<std::int64_t>(class_names().size());
  return named > 0 ? named : classes_of(experiment);
}

SavedRun open_saved_run(const UsedCheckpoint& wanted) {
  const checkpoint::Loaded loaded = load(wanted.path);
  if (!loaded.values.contains("experiment") || !loaded.values.contains("use")) {
    throw Error(Exit::storage, (loaded.path / "state.json").string() +
                                   ": does not say what it is of, as checkpoints of this version "
                                   "do; continue the run for a step to write a new one");
  }
  SavedRun run;
  run.path = loaded.path;
  run.step = loaded.step;
  run.experiment = experiment_of(loaded, wanted.overrides);
  run.use = loaded.values.at("use");
  run.decode = loaded.values.value("identity", nlohmann::json::object())
                   .value("data.loader.decode", std::string("cpu"));
  run.weights = loaded.part("model");
  if (wanted.averages) take_averages(loaded, run);
  log::info("checkpoint " + data::printable(run.path) + ", after step " + std::to_string(run.step) +
            (run.averaged ? ", averaged weights" : ""));
  return run;
}

std::vector<config::Transform> without_augmentation(const std::vector<config::Transform>& list) {
  // What torchvision's own evaluation takes for a training crop: 256 for 224.
  constexpr double kShareOfResize = 0.875;
  std::vector<config::Transform> fixed;
  for (const config::Transform& transform : list) {
    if (const auto* crop = std::get_if<config::RandomCrop>(&transform)) {
      fixed.emplace_back(config::CenterCrop{crop->size});
    } else if (const auto* resized = std::get_if<config::RandomResizedCrop>(&transform)) {
      const auto side = std::llround(static_cast<double>(resized->size) / kShareOfResize);
      fixed.emplace_back(config::Resize{side, resized->interpolation});
      fixed.emplace_back(config::CenterCrop{resized->size});
    } else if (std::holds_alternative<config::Resize>(transform) ||
               std::holds_alternative<config::CenterCrop>(transform) ||
               std::holds_alternative<config::Normalize>(transform)) {
      fixed.push_back(transform);
    }
  }
  return fixed;
}

std::int64_t channels_of(const config::Source& source) {
  if (const auto& wanted = config::images_of(source)->channels) return *wanted;
  if (const auto* synthetic = std::get_if<config::Synthetic>(&source))
    return synthetic->shape.at(0);
  const bool grey = std::holds_alternative<config::Digits>(source) ||
                    std::holds_alternative<config::Mnist>(source);
  return grey ? 1 : 3;
}

models::InputShape input_of(const config::Experiment& experiment) {
  const config::Source& source = experiment.data.train;
  if (config::images_of(source) == nullptr) return {};
  if (const auto size = size_from_transforms(source))
    return {channels_of(source), size->height, size->width};
  const config::Loader& loader = experiment.data.loader;
  const ImageSamples samples(open_data(source, loader, experiment.seed, /*augment=*/false));
  const data::Sampler sampler(samples.size(), 1, /*drop_last=*/false, /*shuffle=*/false, 0);
  return samples.input_shape(sampler, loader);
}

at::Device start_using(const config::Experiment& experiment) {
  const ChosenDevice device = choose_device(experiment);
  constexpr std::string_view kTraining = "training on ";
  log::info(device.line.starts_with(kTraining)
                ? "running on " + device.line.substr(kTraining.size())
                : device.line);
  memory::configure(experiment.memory);
  precision::configure(experiment.precision, device.device, experiment.deterministic);
  return device.device;
}

std::unique_ptr<models::Model> make_model(const SavedRun& run, at::Device device) {
  const config::Experiment& experiment = run.experiment;
  auto model =
      models::make_model(experiment.model, input_of(experiment), run.outputs(), experiment.seed);
  require_suitable(*model, experiment);
  choose_trained(experiment.model, experiment.seed, *model);
  try {
    model->load(run.weights);
  } catch (const Error& failure) {
    throw Error(Exit::storage, data::printable(run.path) + ": " + failure.what());
  }
  model->to(device, memory_format(experiment, device));
  model->set_training(false);
  return model;
}

data::FeedOptions feed_options(const SavedRun& run, at::Device device) {
  data::FeedOptions options;
  options.device = device;
  options.memory_format = memory_format(run.experiment, device);
  options.classes = run.outputs();
  options.seed = run.experiment.seed;
  options.type = input_type(run.experiment, device);
  return options;
}

void require_input(const SavedRun& run, const models::InputShape& shape, const std::string& what) {
  const models::InputShape built = input_of(run.experiment);
  // Only the ResNets pool over whatever size is left.
  const bool any_size = std::holds_alternative<config::ResNet>(run.experiment.model);
  const bool same_size = shape.height == built.height && shape.width == built.width;
  if (shape.channels == built.channels && (same_size || any_size)) return;
  throw Error(Exit::config, what + " come to " + describe(shape) +
                                " (channels x height x width), and the model takes " +
                                describe(built) +
                                "; give data.val transforms that end with a crop of that size");
}

}  // namespace trainer::engine

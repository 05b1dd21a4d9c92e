#include "config/rules.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "config/node.h"
#include "config/scalar.h"

namespace trainer::config {
namespace {

// Reports broken rules where the fields they speak of are sound.
class Rules {
 public:
  explicit Rules(Reader& reader) : reader_(reader), known_(reader.problems()) {}

  // `path` has to change; `others` are fields that the rule rests on.
  void broken(const std::string& path, const std::string& message,
              std::initializer_list<const char*> others = {}) {
    if (!sound(path)) return;
    for (const char* other : others)
      if (!sound(other)) return;
    reader_.problem_at(reader_.place_of(path), path, message);
  }
  bool sound(std::string_view path) const { return !known_.touch(path); }

 private:
  Reader& reader_;
  Problems known_;  // before any rule
};

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

// --- lengths and the schedule --------------------------------------------------------------------
struct NamedLength {
  std::string path;
  Length length;
};

const ScheduleCommon& common(const Schedule& schedule) {
  return std::visit([](const auto& kind) -> const ScheduleCommon& { return kind; }, schedule);
}

std::vector<NamedLength> schedule_lengths(const Schedule& schedule) {
  std::vector<NamedLength> all{{"schedule.warmup", common(schedule).warmup}};
  if (common(schedule).length) all.push_back({"schedule.length", *common(schedule).length});
  if (const auto* step = std::get_if<Step>(&schedule))
    all.push_back({"schedule.every", step->every});
  if (const auto* wsd = std::get_if<Wsd>(&schedule)) all.push_back({"schedule.decay", wsd->decay});
  if (const auto* steps = std::get_if<Multistep>(&schedule))
    for (std::size_t i = 0; i < steps->at.size(); ++i)
      all.push_back({"schedule.at." + std::to_string(i), steps->at[i]});
  return all;
}

void check_units(const Experiment& experiment, Rules& rules) {
  std::vector<NamedLength> all = schedule_lengths(experiment.schedule);
  all.push_back({"train.length", experiment.train.length});
  if (experiment.train.evaluate_every)
    all.push_back({"train.evaluate_every", *experiment.train.evaluate_every});
  if (experiment.checkpoint.every)
    all.push_back({"checkpoint.every", *experiment.checkpoint.every});
  all.push_back({"log.every", experiment.log.every});
  if (text_of(experiment.data.train) != nullptr) return;
  for (const auto& [path, length] : all)
    if (length.unit == Length::Unit::tokens)
      rules.broken(path, "images have no tokens; give the length in steps, epochs or samples",
                   {"data.train.kind"});
}

bool needs_horizon(const Schedule& schedule) {
  return std::visit(
      [](const auto& kind) {
        using Kind = std::decay_t<decltype(kind)>;
        return std::is_same_v<Kind, Linear> || std::is_same_v<Kind, Cosine> ||
               std::is_same_v<Kind, OneCycle> || std::is_same_v<Kind, Wsd>;
      },
      schedule);
}

void check_multistep(const Multistep& steps, Rules& rules) {
  for (std::size_t i = 1; i < steps.at.size(); ++i) {
    const std::string path = "schedule.at." + std::to_string(i);
    const Length& before = steps.at[i - 1];
    if (steps.at[i].unit != before.unit)
      rules.broken(path, "has another unit than " + format_length(before) +
                             " before it; use one unit for all of schedule.at");
    else if (steps.at[i].value <= before.value)
      rules.broken(path,
                   "comes after " + format_length(before) + ", so it has to be more than that");
  }
}

void check_schedule(const Experiment& experiment, Rules& rules) {
  const Schedule& schedule = experiment.schedule;
  const ScheduleCommon& shape = common(schedule);
  const Length end = shape.length.value_or(experiment.train.length);
  const std::string end_name = shape.length ? "schedule.length" : "train.length";
  if (needs_horizon(schedule) && end.unit == Length::Unit::seconds)
    rules.broken("schedule.length",
                 "this schedule needs to know its end in steps, and train.length is a time; set "
                 "schedule.length in steps, epochs or samples",
                 {"train.length"});
  const bool comparable = shape.warmup.unit == end.unit;
  if (comparable && shape.warmup.value >= end.value)
    rules.broken("schedule.warmup",
                 "the warm-up has to be shorter than " + end_name + " (" + format_length(end) + ")",
                 {"train.length", "schedule.length"});
  if (const auto* steps = std::get_if<Multistep>(&schedule)) check_multistep(*steps, rules);
  const auto* wsd = std::get_if<Wsd>(&schedule);
  if (wsd == nullptr || wsd->decay.unit != end.unit) return;
  const double warmup = comparable ? wsd->warmup.value : 0;
  if (wsd->decay.value + warmup > end.value)
    rules.broken(
        "schedule.decay",
        "warm-up and decay together are longer than " + end_name + " (" + format_length(end) + ")",
        {"train.length", "schedule.length", "schedule.warmup"});
}

// --- data ----------------------------------------------------------------------------------------
// What is known of a source without opening it.
struct Facts {
  std::optional<std::int64_t> classes, channels, samples;
};

std::optional<std::int64_t> count_of(const std::vector<std::string>& classes) {
  if (classes.empty()) return std::nullopt;
  return static_cast<std::int64_t>(classes.size());
}

// Before images are converted to other channels.
Facts original_facts(const Source& source) {
  return std::visit(
      Overloaded{[](const Digits& digits) {
                   return Facts{10, 1, digits.split == Split::train ? 1437 : 360};
                 },
                 [](const ImageFolder&) {
                   return Facts{std::nullopt, 3, std::nullopt};
                 },
                 [](const Manifest& manifest) {
                   return Facts{count_of(manifest.classes), 3, std::nullopt};
                 },
                 [](const TarShards& shards) {
                   return Facts{count_of(shards.classes), 3, std::nullopt};
                 },
                 [](const Cifar& cifar) {
                   return Facts{cifar.classes, 3, cifar.split == Split::train ? 50000 : 10000};
                 },
                 [](const Mnist&) {
                   return Facts{10, 1, std::nullopt};
                 },
                 [](const Synthetic& synthetic) {
                   return Facts{synthetic.classes, synthetic.shape.at(0), synthetic.samples};
                 },
                 [](const TokenSource&) { return Facts{}; }},
      source);
}

Facts facts(const Source& source) {
  Facts known = original_facts(source);
  if (const SourceCommon* images = images_of(source); images != nullptr && images->channels)
    known.channels = images->channels;
  return known;
}

void check_order(const std::vector<double>& pair, const std::string& path, Rules& rules) {
  if (pair.size() == 2 && pair[0] > pair[1])
    rules.broken(path, "the first of the two is the smaller one, found [" + format_number(pair[0]) +
                           ", " + format_number(pair[1]) + "]");
}

// One number stands for every channel.
void check_normalize(const Normalize& normalize, const Facts& source, const std::string& path,
                     Rules& rules) {
  const auto means = static_cast<std::int64_t>(normalize.mean.size());
  const auto deviations = static_cast<std::int64_t>(normalize.std.size());
  const std::int64_t channels = std::max(means, deviations);
  if (std::min(means, deviations) > 1 && means != deviations)
    return rules.broken(path + ".normalize", "mean has " + std::to_string(means) +
                                                 " numbers and std " + std::to_string(deviations) +
                                                 "; both have one for each channel");
  if (source.channels && channels > 1 && channels != *source.channels)
    rules.broken(path + ".normalize", "has numbers for " + std::to_string(channels) +
                                          " channels, and the images have " +
                                          std::to_string(*source.channels));
}

void check_rand_augment(const RandAugment& augment, const std::string& path, Rules& rules) {
  if (augment.magnitude >= augment.bins)
    rules.broken(path + ".rand_augment.magnitude", "has to be below bins (" +
                                                       std::to_string(augment.bins) + "), found " +
                                                       std::to_string(augment.magnitude));
}

// What stood before a transform in its list.
struct Before {
  bool normalize = false;
  bool erasing = false;
};

void check_place(const Transform& transform, const Before& before, const std::string& path,
                 Rules& rules) {
  if (std::holds_alternative<Normalize>(transform)) {
    if (before.normalize) rules.broken(path, "a second normalize; keep one");
    return;
  }
  if (std::holds_alternative<RandomErasing>(transform)) {
    if (!before.normalize)
      rules.broken(path, "random_erasing comes after normalize: what it erases becomes the mean");
    if (before.erasing) rules.broken(path, "a second random_erasing; keep one");
    return;
  }
  if (before.normalize)
    rules.broken(path, "comes before normalize, which works on the finished image");
}

void check_transforms(const Source& source, const std::string& source_path, Rules& rules) {
  Before before;
  Facts known = facts(source);
  if (!rules.sound(source_path + ".channels")) known.channels.reset();
  if (images_of(source) == nullptr) return;
  const std::vector<Transform>& list = images_of(source)->transforms;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = source_path + ".transforms." + std::to_string(i);
    if (!rules.sound(path)) continue;
    check_place(list[i], before, path, rules);
    std::visit(
        Overloaded{[&](const Normalize& normalize) {
                     check_normalize(normalize, known, path, rules);
                     before.normalize = true;
                   },
                   [&](const RandomErasing& erasing) {
                     check_order(erasing.scale, path + ".random_erasing.scale", rules);
                     check_order(erasing.ratio, path + ".random_erasing.ratio", rules);
                     before.erasing = true;
                   },
                   [&](const RandomResizedCrop& crop) {
                     check_order(crop.scale, path + ".random_resized_crop.scale", rules);
                     check_order(crop.ratio, path + ".random_resized_crop.ratio", rules);
                   },
                   [&](const RandAugment& augment) { check_rand_augment(augment, path, rules); },
                   [](const auto&) {}},
        list[i]);
  }
}

// --- sources -------------------------------------------------------------------------------------
void check_background(const ImagesCommon& images, const std::string& path, Rules& rules) {
  const std::int64_t channels = images.channels.value_or(3);
  const auto count = static_cast<std::int64_t>(images.background.size());
  // The default suits any number of channels.
  if (count == 1 || count == channels || images.background == ImagesCommon{}.background) return;
  rules.broken(path + ".background",
               "has " + std::to_string(count) + " numbers, and the images have " +
                   std::to_string(channels) + (channels == 1 ? " channel" : " channels") +
                   "; give one for each channel, or one for all",
               {(path + ".channels").c_str()});
}

void check_class_names(const std::vector<std::string>& classes, const std::string& path,
                       Rules& rules) {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (!seen.insert(classes[i]).second)
      rules.broken(path + ".classes." + std::to_string(i),
                   "a second class " + quote(classes[i]) + "; each name stands for one class");
}

void check_conversion(const Synthetic& synthetic, const std::string& path, Rules& rules) {
  const std::int64_t channels = synthetic.shape.at(0);
  if (synthetic.channels && channels != 1 && channels != 3)
    rules.broken(
        path + ".channels",
        "images of " + std::to_string(channels) + " channels can't be converted; set it to auto",
        {(path + ".shape").c_str()});
}

void check_source(const Source& source, const std::string& path, Rules& rules) {
  check_transforms(source, path, rules);
  std::visit(
      Overloaded{[&](const ImageFolder& folder) { check_background(folder, path, rules); },
                 [&](const Manifest& manifest) {
                   check_background(manifest, path, rules);
                   check_class_names(manifest.classes, path, rules);
                 },
                 [&](const TarShards& shards) {
                   check_background(shards, path, rules);
                   check_class_names(shards.classes, path, rules);
                 },
                 [&](const Synthetic& synthetic) { check_conversion(synthetic, path, rules); },
                 [](const auto&) {}},
      source);
}

std::optional<std::int64_t> model_classes(const Model& model) {
  return std::visit([](const auto& kind) { return kind.classes; }, model);
}

void check_classes(const Experiment& experiment, Rules& rules) {
  const Facts train = facts(experiment.data.train);
  const auto classes = model_classes(experiment.model);
  if (classes && train.classes && *classes != *train.classes)
    rules.broken("model.classes",
                 "data.train has " + std::to_string(*train.classes) + " classes, found " +
                     std::to_string(*classes) + "; set it to auto",
                 {"model.kind", "data.train.kind", "data.train.classes"});
  if (!experiment.data.val) return;
  const Facts val = facts(*experiment.data.val);
  if (val.classes && train.classes && *val.classes != *train.classes)
    rules.broken("data.val",
                 "has " + std::to_string(*val.classes) + " classes, and data.train " +
                     std::to_string(*train.classes) + "; both need the same",
                 {"data.train.kind", "data.train.classes"});
  if (val.channels && train.channels && *val.channels != *train.channels)
    rules.broken("data.val",
                 "has images of " + std::to_string(*val.channels) +
                     " channels, and data.train of " + std::to_string(*train.channels) +
                     "; both need the same, as with channels: 1 or channels: 3 in both",
                 {"data.train.kind", "data.train.shape", "data.train.channels"});
}

// The name of a transform that only the CPU does, or nothing.
std::string cpu_only(const Transform& transform) {
  if (std::holds_alternative<RandAugment>(transform)) return "rand_augment";
  if (std::holds_alternative<TrivialAugment>(transform)) return "trivial_augment";
  return {};
}

void check_gpu_transforms(const Source& source, const std::string& source_path, Rules& rules) {
  if (images_of(source) == nullptr) return;
  const std::vector<Transform>& list = images_of(source)->transforms;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = cpu_only(list[i]);
    if (name.empty()) continue;
    const std::string path = source_path + ".transforms." + std::to_string(i);
    std::string message = "the GPU can't do ";
    message.append(name).append(" (").append(path).append(
        "); use decode: auto or cpu, or leave that transform out");
    return rules.broken("data.loader.decode", message, {path.c_str()});
  }
}

void check_decode(const Experiment& experiment, Rules& rules) {
  if (experiment.data.loader.decode != Decode::gpu) return;
  if (experiment.device.kind == DeviceKind::cpu)
    return rules.broken("data.loader.decode",
                        "gpu needs a GPU, and device is cpu; use decode: auto or cpu", {"device"});
  check_gpu_transforms(experiment.data.train, "data.train", rules);
  if (experiment.data.val) check_gpu_transforms(*experiment.data.val, "data.val", rules);
}

void check_drop_last(const Experiment& experiment, Rules& rules) {
  const auto samples = facts(experiment.data.train).samples;
  const std::int64_t global = experiment.batch.global.value_or(0);
  if (experiment.data.loader.drop_last && samples && *samples < global)
    rules.broken("data.loader.drop_last",
                 "leaves no batch at all: data.train has " + std::to_string(*samples) +
                     " samples, and batch.global is " + std::to_string(global),
                 {"batch", "data.train.kind", "data.train.samples"});
}

void check_mix(const Experiment& experiment, Rules& rules) {
  if (!experiment.data.mix) return;
  if (experiment.data.mix->mixup == 0 && experiment.data.mix->cutmix == 0)
    rules.broken("data.mix", "neither mixup nor cutmix is above 0; set one, or mix: null");
  if (!std::holds_alternative<CrossEntropy>(experiment.objective))
    rules.broken("data.mix", "blended labels need objective.kind: cross_entropy",
                 {"objective.kind"});
}

// --- text ----------------------------------------------------------------------------------------
void check_lengths(const Experiment& experiment, Rules& rules) {
  const LanguageModel* model = language_model_of(experiment.model);
  const auto check = [&](const Source& source, const std::string& path) {
    const TokenSource* text = text_of(source);
    if (text == nullptr || model == nullptr || text->length <= model->context) return;
    rules.broken(path + ".length",
                 "sequences of " + std::to_string(text->length) +
                     " tokens are longer than the model's context of " +
                     std::to_string(model->context),
                 {"model.context", "model.kind"});
  };
  check(experiment.data.train, "data.train");
  if (experiment.data.val) check(*experiment.data.val, "data.val");
}

void check_vit(const Vit& vit, Rules& rules) {
  if (vit.image % vit.patch != 0)
    rules.broken("model.patch",
                 "patches of " + std::to_string(vit.patch) + " pixels do not divide images of " +
                     std::to_string(vit.image),
                 {"model.image"});
  if (vit.width % vit.heads != 0)
    rules.broken("model.heads",
                 std::to_string(vit.heads) + " heads do not divide the width of " +
                     std::to_string(vit.width),
                 {"model.width"});
}

// Whether model, data and objective are all for text, or all for images.
void check_text(const Experiment& experiment, Rules& rules) {
  const bool text = text_of(experiment.data.train) != nullptr;
  const bool known = !std::holds_alternative<HuggingFace>(experiment.model);
  const bool reads_text = language_model_of(experiment.model) != nullptr;
  if (known && text != reads_text)
    rules.broken("data.train.kind",
                 text ? "gives text, and the model reads images; use a language model, such as "
                        "kind: gpt2"
                      : "gives images, and the model reads text; use a source of text, such as "
                        "kind: text",
                 {"model.kind"});
  if (experiment.data.val && (text_of(*experiment.data.val) != nullptr) != text)
    rules.broken("data.val.kind", "data.train and data.val must both give text, or both images",
                 {"data.train.kind"});
  if (text != std::holds_alternative<LanguageModeling>(experiment.objective))
    rules.broken(
        "objective.kind",
        text ? "text is learnt by language_modeling" : "language_modeling needs data of text",
        {"data.train.kind"});
  if (!text && experiment.log.samples)
    rules.broken("log.samples", "only a language model writes text; set it to null",
                 {"data.train.kind"});
  check_lengths(experiment, rules);
  if (const auto* vit = std::get_if<Vit>(&experiment.model)) check_vit(*vit, rules);
}

// --- numbers -------------------------------------------------------------------------------------
std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

void check_batch(const Batch& batch, Rules& rules) {
  if (!batch.global || !batch.micro || !batch.accumulate) return;
  const std::int64_t global = *batch.global;
  const std::int64_t micro = *batch.micro;
  const std::int64_t accumulate = *batch.accumulate;
  if (micro > global)
    return rules.broken("batch.micro", "a micro-batch of " + std::to_string(micro) +
                                           " is larger than the global batch of " +
                                           std::to_string(global));
  const std::int64_t cuts = divide_up(global, micro);
  if (cuts != accumulate)
    rules.broken("batch.accumulate",
                 "global " + std::to_string(global) + " cut into micro-batches of " +
                     std::to_string(micro) + " makes " + std::to_string(cuts) + ", not " +
                     std::to_string(accumulate) + "; leave one of the three out");
}

void check_device(const Experiment& experiment, Rules& rules) {
  if (experiment.device.kind != DeviceKind::cpu) return;
  if (experiment.precision.mode == PrecisionMode::fp16)
    rules.broken("precision.mode", "fp16 needs a GPU, and device is cpu; use fp32 or bf16",
                 {"device"});
  if (experiment.require_gpu)
    rules.broken("require_gpu", "contradicts device: cpu; change one of them", {"device"});
}

void check_optim(const Experiment& experiment, Rules& rules) {
  const auto* sgd = std::get_if<Sgd>(&experiment.optim);
  if (sgd != nullptr && sgd->nesterov && sgd->momentum == 0)
    rules.broken("optim.nesterov", "needs momentum above 0, such as optim.momentum: 0.9",
                 {"optim.kind", "optim.momentum"});
  const auto& groups = std::visit(
      [](const auto& kind) -> const std::vector<Group>& { return kind.groups; }, experiment.optim);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < groups.size(); ++i)
    if (!seen.insert(groups[i].match).second)
      rules.broken("optim.groups." + std::to_string(i) + ".match",
                   "an earlier group has the same pattern and takes all of its parameters");
}

// --- metrics -------------------------------------------------------------------------------------
std::optional<std::int64_t> known_classes(const Experiment& experiment) {
  const auto classes = model_classes(experiment.model);
  return classes ? classes : facts(experiment.data.train).classes;
}

void check_metric(const Experiment& experiment, const std::string& path, const std::string& metric,
                  Mode mode, Rules& rules) {
  if (!experiment.data.val)
    return rules.broken(path, "needs data.val: without it nothing is evaluated", {"data.val"});
  const bool text = text_of(experiment.data.train) != nullptr;
  if (metric == "val/perplexity" ? !text : text && metric == "val/accuracy_top5")
    return rules.broken(path + ".metric",
                        metric + " is not measured on " + (text ? "text" : "images"),
                        {"data.train.kind"});
  const bool loss = metric == "val/loss" || metric == "val/perplexity";
  if (loss != (mode == Mode::min))
    rules.broken(path + ".mode", metric + " is better when it is " + (loss ? "lower" : "higher") +
                                     "; set mode: " + (loss ? "min" : "max"));
  const auto classes = known_classes(experiment);
  if (metric == "val/accuracy_top5" && classes && *classes <= 5)
    rules.broken(path + ".metric",
                 "among " + std::to_string(*classes) +
                     " classes the right one is always in the top 5; use val/accuracy",
                 {"model.classes", "data.train"});
}

void check_metrics(const Experiment& experiment, Rules& rules) {
  if (const auto& stop = experiment.train.stop_early) {
    check_metric(experiment, "train.stop_early", stop->metric, stop->mode, rules);
    if (!experiment.train.evaluate_every)
      rules.broken("train.stop_early", "needs train.evaluate_every", {"train.evaluate_every"});
  }
  if (const auto& best = experiment.checkpoint.best)
    check_metric(experiment, "checkpoint.best", best->metric, best->mode, rules);
}

// The third of global, micro and accumulate, or what none of them gives.
void derive_sizes(Batch& batch) {
  constexpr std::int64_t kGlobal = 64;
  // What could not be read, and is reported, is 0 here.
  for (Auto<std::int64_t>* count :
       {&batch.global, &batch.micro, &batch.accumulate, &batch.evaluate})
    if (*count && **count < 1) count->reset();
  if (!batch.global) {
    if (batch.micro)
      batch.global = *batch.micro * batch.accumulate.value_or(1);
    else
      batch.global = std::max(kGlobal, batch.accumulate.value_or(1));
  }
  if (!batch.micro) batch.micro = divide_up(*batch.global, batch.accumulate.value_or(1));
  if (!batch.accumulate) batch.accumulate = divide_up(*batch.global, *batch.micro);
  if (!batch.evaluate) batch.evaluate = batch.micro;
}

}  // namespace

void derive(Experiment& experiment) {
  derive_sizes(experiment.batch);
  const auto* loss = std::get_if<CrossEntropy>(&experiment.objective);
  if (loss != nullptr && text_of(experiment.data.train) != nullptr)
    experiment.objective = LanguageModeling{loss->label_smoothing, 0};
}

void check_rules(const Experiment& experiment, Reader& reader) {
  Rules rules(reader);
  check_device(experiment, rules);
  check_batch(experiment.batch, rules);
  check_text(experiment, rules);
  check_classes(experiment, rules);
  check_source(experiment.data.train, "data.train", rules);
  if (experiment.data.val) check_source(*experiment.data.val, "data.val", rules);
  check_decode(experiment, rules);
  check_drop_last(experiment, rules);
  check_mix(experiment, rules);
  check_optim(experiment, rules);
  check_units(experiment, rules);
  check_schedule(experiment, rules);
  check_metrics(experiment, rules);
}

}  // namespace trainer::config

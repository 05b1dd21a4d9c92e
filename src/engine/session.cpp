#include "engine/session.h"

#include <algorithm>
#include <variant>

#include "core/cpu.h"
#include "core/error.h"
#include "core/text.h"

namespace trainer::engine {
namespace {

template <class Variant>
const auto& common(const Variant& kind) {
  return std::visit(
      [](const auto& one) -> const auto& {
        using One = std::decay_t<decltype(one)>;
        if constexpr (std::is_base_of_v<config::ModelCommon, One>)
          return static_cast<const config::ModelCommon&>(one);
        else if constexpr (std::is_base_of_v<config::SourceCommon, One>)
          return static_cast<const config::SourceCommon&>(one);
        else if constexpr (std::is_base_of_v<config::OptimCommon, One>)
          return static_cast<const config::OptimCommon&>(one);
      },
      kind);
}

std::unique_ptr<data::Pipeline> make_pipeline(const config::Source& config,
                                              const data::Source& source) {
  return std::make_unique<data::Pipeline>(common(config).transforms, source.channels());
}

// Names both lists' first difference.
void require_same_classes(const data::Source& train, const data::Source& val) {
  const auto& a = train.class_names();
  const auto& b = val.class_names();
  if (a == b && train.classes() == val.classes()) return;
  std::string detail;
  for (const std::string& name : a)
    if (std::find(b.begin(), b.end(), name) == b.end()) detail += "; only in data.train: " + name;
  for (const std::string& name : b)
    if (std::find(a.begin(), a.end(), name) == a.end()) detail += "; only in data.val: " + name;
  throw Error(Exit::data, "data.train has " + std::to_string(train.classes()) +
                              " classes and data.val " + std::to_string(val.classes()) +
                              "; they must be the same" + detail);
}

std::string describe_shape(const models::InputShape& shape) {
  return std::to_string(shape.height) + "x" + std::to_string(shape.width) + " with " +
         std::to_string(shape.channels) + (shape.channels == 1 ? " channel" : " channels");
}

std::int64_t worker_count(const config::Auto<std::int64_t>& workers, at::Device device) {
  if (workers) return *workers;
  // On a CPU the training itself wants the cores.
  const int cpus = cpu_limit();
  return device.is_cuda() ? std::clamp(cpus - 1, 1, 16) : std::max(1, cpus / 4);
}

}  // namespace

Session::Session(const config::Experiment& experiment, at::Device device, bool fresh)
    : experiment_(experiment), device_(device), strategy_(distributed::single_process()) {
  open_data();
  build_model(fresh);
  build_optimisation();
  if (val_source_) build_evaluation();
}

Session::~Session() = default;

void Session::open_data() {
  const config::Data& data = experiment_.data;
  train_source_ = data::make_source(data.train, experiment_.seed);
  train_pipeline_ = make_pipeline(data.train, *train_source_);
  if (data.val) {
    val_source_ = data::make_source(*data.val, experiment_.seed);
    val_pipeline_ = make_pipeline(*data.val, *val_source_);
    require_same_classes(*train_source_, *val_source_);
  }
  const std::int64_t global = experiment_.batch.global.value();
  sampler_ = std::make_unique<data::Sampler>(train_source_->size(), global, data.loader.drop_last,
                                             /*shuffle=*/true, experiment_.seed, strategy_->rank(),
                                             strategy_->ranks());
  plan_ = make_plan(experiment_, *sampler_);
}

std::int64_t Session::classes() const {
  const auto& wanted = common(experiment_.model).classes;
  const std::int64_t has = train_source_->classes();
  if (wanted && *wanted < has) {
    throw Error(Exit::config, "model.classes is " + std::to_string(*wanted) +
                                  ", but data.train has " + std::to_string(has) + " classes");
  }
  return wanted.value_or(has);
}

void Session::build_model(bool fresh) {
  // A loader knows the input's size; this one delivers nothing and has plain memory, of which it
  // touches none.
  data::LoaderOptions options;
  options.seed = experiment_.seed;
  const data::Loader probe(*train_source_, *train_pipeline_, *sampler_, options);
  input_ = {probe.channels(), probe.height(), probe.width()};
  model_ = models::make_model(experiment_.model, input_, classes(), experiment_.seed);
  if (const auto& weights = common(experiment_.model).weights; weights && fresh)
    checkpoint::load_weights(weights->path, *model_, weights->strict, weights->skip);
  using config::MemoryFormat;
  const MemoryFormat wanted = common(experiment_.model).memory_format;
  if (wanted == MemoryFormat::channels_last ||
      (wanted == MemoryFormat::automatic && device_.is_cuda()))
    memory_format_ = at::MemoryFormat::ChannelsLast;
  model_->to(device_, memory_format_);
  model_->set_training(true);
  objective_ = objectives::make_objective(experiment_.objective, classes());
}

void Session::build_optimisation() {
  const config::OptimCommon& optim = common(experiment_.optim);
  const NamedTensors parameters = model_->parameters();
  strategy_->adopt(parameters, model_->buffers());
  optimizer_ = optim::make_optimizer(experiment_.optim, parameters);
  if (optim.ema) {
    NamedTensors averaged = parameters;
    for (const NamedTensor& buffer : model_->buffers())
      if (buffer.value.is_floating_point()) averaged.push_back(buffer);
    ema_ = std::make_unique<optim::Ema>(optim.ema->decay, std::move(averaged));
  }
  scaler_ = std::make_unique<precision::Scaler>(experiment_.precision, device_);
  schedule_ = std::make_unique<optim::Schedule>(
      experiment_.schedule, optim.lr,
      optim::Horizon{plan_.total_steps, plan_.steps_per_epoch, experiment_.batch.global.value()});
  trainer_ = std::make_unique<Trainer>(
      TrainerParts{*model_, *objective_, *optimizer_, ema_.get(), *scaler_, *strategy_, *schedule_},
      TrainerOptions{device_, experiment_.precision, experiment_.train.on_nonfinite,
                     optim.clip_norm, experiment_.seed, plan_.total_steps});
  optimisation_ = std::make_unique<Bundle>(std::vector<std::pair<std::string, Stateful*>>{
      {"", optimizer_.get()}, {"scaler.", scaler_.get()}, {"trainer.", trainer_.get()}});
}

void Session::build_evaluation() {
  evaluator_ = std::make_unique<Evaluator>(
      EvaluatorParts{*model_, *objective_, *strategy_, *val_source_, *val_pipeline_},
      experiment_.precision, experiment_.batch.evaluate.value(), loader_options(),
      feed_options(/*training=*/false));
  const models::InputShape evaluated = evaluator_->input_shape();
  // Only the ResNets pool over whatever size is left.
  const bool any_size = std::holds_alternative<config::ResNet>(experiment_.model);
  const bool same_size = evaluated.height == input_.height && evaluated.width == input_.width;
  if (evaluated.channels != input_.channels || !(same_size || any_size)) {
    throw Error(Exit::config, "data.val gives images of " + describe_shape(evaluated) +
                                  ", but the model is built for data.train's " +
                                  describe_shape(input_) +
                                  "; end both lists of transforms with the same sizes");
  }
}

data::LoaderOptions Session::loader_options() const {
  data::LoaderOptions options;
  options.workers = static_cast<int>(worker_count(experiment_.data.loader.workers, device_));
  options.prefetch = static_cast<int>(experiment_.data.loader.prefetch);
  options.seed = experiment_.seed;
  if (device_.is_cuda()) options.allocate = data::host_allocator(/*pinned=*/true);
  return options;
}

data::FeedOptions Session::feed_options(bool training) const {
  data::FeedOptions options;
  options.device = device_;
  options.memory_format = memory_format_;
  options.classes = classes();
  options.seed = experiment_.seed;
  if (training) options.mix = experiment_.data.mix;
  return options;
}

checkpoint::Parts Session::checkpoint_parts() {
  checkpoint::Parts parts{{"model", model_.get()}, {"optim", optimisation_.get()}};
  if (ema_) parts.emplace_back("ema", ema_.get());
  return parts;
}

nlohmann::json Session::identity() const {
  return {{"batch.global", experiment_.batch.global.value()},
          {"seed", experiment_.seed},
          {"data.loader.drop_last", experiment_.data.loader.drop_last},
          {"data.train samples", train_source_->size()},
          {"data.train contents", std::to_string(train_source_->fingerprint())},
          {"data.train classes", train_source_->class_names()}};
}

void Session::start(std::int64_t first, std::int64_t last) {
  data::LoaderOptions options = loader_options();
  options.first_step = first;
  options.last_step = last;
  loader_ = std::make_unique<data::Loader>(*train_source_, *train_pipeline_, *sampler_, options);
  feed_ = std::make_unique<data::Feed>(*loader_, train_pipeline_->normalisation(),
                                       train_pipeline_->erases(), feed_options(/*training=*/true));
}

std::vector<std::string> Session::describe() const {
  std::int64_t parameters = 0;
  for (const NamedTensor& parameter : model_->parameters()) parameters += parameter.value.numel();
  const config::Batch& batch = experiment_.batch;
  std::vector<std::string> lines{"data.train: " + train_source_->describe()};
  if (val_source_) lines.push_back("data.val: " + val_source_->describe());
  lines.push_back("model: " + std::to_string(parameters) + " parameters, " +
                  std::to_string(classes()) + " classes");
  lines.push_back("batch: " + std::to_string(*batch.global) + " = " + std::to_string(*batch.micro) +
                  " x " + std::to_string(*batch.accumulate) + ", " +
                  std::to_string(plan_.steps_per_epoch) + " steps an epoch" +
                  (plan_.total_steps > 0
                       ? ", " + std::to_string(plan_.total_steps) + " steps in all"
                       : ", for " + human_seconds(plan_.total_seconds)));
  return lines;
}

}  // namespace trainer::engine

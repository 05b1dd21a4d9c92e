#include "engine/session.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <variant>

#include "core/error.h"
#include "core/text.h"
#include "engine/flops.h"
#include "engine/model_set_up.h"

namespace trainer::engine {
namespace {

const config::OptimCommon& common(const config::Optim& optim) {
  return std::visit([](const auto& one) -> const config::OptimCommon& { return one; }, optim);
}

NamedTensors trainable(const NamedTensors& parameters) {
  NamedTensors trained;
  for (const NamedTensor& parameter : parameters)
    if (parameter.value.requires_grad()) trained.push_back(parameter);
  return trained;
}

std::string describe_shape(const models::InputShape& shape) {
  return std::to_string(shape.height) + "x" + std::to_string(shape.width) + " with " +
         std::to_string(shape.channels) + (shape.channels == 1 ? " channel" : " channels");
}

}  // namespace

Session::Session(const config::Experiment& experiment, at::Device device,
                 const SessionOptions& options)
    : experiment_(experiment), device_(device), strategy_(distributed::single_process()) {
  open_data();
  build_model(options.fresh);
  build_optimisation();
  choose_decode(options.decode);
  if (val_) build_evaluation();
}

Session::~Session() = default;

void Session::open_data() {
  const config::Data& data = experiment_.data;
  open_samples();
  bad_train_ = std::make_unique<BadSamples>("train", train_->size(), data.loader.max_bad_share);
  if (val_) bad_val_ = std::make_unique<BadSamples>("val", val_->size(), data.loader.max_bad_share);
  const std::int64_t global = experiment_.batch.global.value();
  sampler_ = std::make_unique<data::Sampler>(train_->size(), global, data.loader.drop_last,
                                             /*shuffle=*/true, experiment_.seed, strategy_->rank(),
                                             strategy_->ranks());
  plan_ = make_plan(experiment_, *sampler_, train_->tokens());
}

void Session::open_samples() {
  const config::Data& data = experiment_.data;
  if (const auto text = text_source(data.train)) {
    auto train = std::make_unique<TextSamples>(*text, std::nullopt);
    text_ = train.get();
    train_ = std::move(train);
    if (data.val)
      val_ = std::make_unique<TextSamples>(*text_source(*data.val), text_->tokenizer().alphabet);
    return;
  }
  const int caches = data.val ? 2 : 1;
  auto train = std::make_unique<ImageSamples>(
      engine::open_data(data.train, data.loader, experiment_.seed, /*augment=*/true, caches));
  images_ = train.get();
  train_ = std::move(train);
  if (!data.val) return;
  auto val = std::make_unique<ImageSamples>(
      engine::open_data(*data.val, data.loader, experiment_.seed, /*augment=*/false, caches));
  require_same_classes(*images_->opened().source, *val->opened().source);
  val_images_ = val.get();
  val_ = std::move(val);
}

// Classes of images, or tokens of the vocabulary.
std::int64_t Session::outputs() const {
  if (images_ != nullptr) {
    const auto& wanted = config::common(experiment_.model).classes;
    const std::int64_t has = images_->opened().source->classes();
    if (wanted && *wanted < has) {
      throw Error(Exit::config, "model.classes is " + std::to_string(*wanted) +
                                    ", but data.train has " + std::to_string(has) + " classes");
    }
    return wanted.value_or(has);
  }
  const config::LanguageModel* model = config::language_model_of(experiment_.model);
  if (model != nullptr && model->vocabulary) return *model->vocabulary;
  if (text_->tokenizer().tokenizer) return text_->tokenizer().tokenizer->vocabulary();
  throw Error(Exit::config,
              "model.vocabulary: auto takes the tokenizer's, and data.train's token files name "
              "none; give a number, such as 50257 for GPT-2's tokens");
}

void Session::build_model(bool fresh) {
  if (images_ != nullptr) input_ = images_->input_shape(*sampler_, experiment_.data.loader);
  model_ = models::make_model(experiment_.model, input_, outputs(), experiment_.seed);
  require_suitable(*model_, experiment_);
  if (text_ != nullptr) {
    text_->require_vocabulary(outputs());
    if (val_) static_cast<const TextSamples&>(*val_).require_vocabulary(outputs());
  }
  if (fresh) load_start_weights(experiment_.model, *model_);
  choose_trained(experiment_.model, experiment_.seed, *model_);
  model_->to(device_, memory_format(experiment_, device_));
  model_->set_training(true);
  checkpointing_ = std::make_unique<memory::ActivationCheckpointing>(
      experiment_.memory.activation_checkpointing, resident_tensors(*model_));
  model_->set_block_runner(checkpointing_->runner());
  objective_ = objectives::make_objective(experiment_.objective, outputs());
  flops_per_sample_ = training_flops(*model_, experiment_.model, train_->tokens());
  peak_flops_ = engine::peak_flops(experiment_, device_);
}

void Session::build_optimisation() {
  const config::OptimCommon& optim = common(experiment_.optim);
  const NamedTensors parameters = trainable(model_->parameters());
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
      optim::Horizon{plan_.total_steps, plan_.steps_per_epoch, experiment_.batch.global.value(),
                     train_->tokens()});
  trainer_ = std::make_unique<Trainer>(
      TrainerParts{*model_, *objective_, *optimizer_, ema_.get(), *scaler_, *strategy_, *schedule_},
      TrainerOptions{device_, experiment_.precision, experiment_.train.on_nonfinite,
                     optim.clip_norm, experiment_.seed, plan_.total_steps});
  optimisation_ = std::make_unique<Bundle>(std::vector<std::pair<std::string, Stateful*>>{
      {"", optimizer_.get()}, {"scaler.", scaler_.get()}, {"trainer.", trainer_.get()}});
}

void Session::choose_decode(std::optional<config::Decode> resumed) {
  if (images_ == nullptr) return;
  decode_ = engine::choose_decode(
      experiment_, images_->opened(), *sampler_, feed_options(/*training=*/true), resumed,
      [this](const data::StepBatch& batch) { return seconds_of_step(batch); });
}

// Forward and backward passes, each abandoned before anything is updated. The first ones pay for
// what the first step would pay for.
double Session::seconds_of_step(const data::StepBatch& batch) {
  constexpr int kWarmUp = 2;
  constexpr int kMeasured = 3;
  const std::int64_t micro = experiment_.batch.micro.value();
  const c10::impl::VirtualGuardImpl streams(device_.type());
  std::chrono::steady_clock::time_point started;
  for (int i = 0; i < kWarmUp + kMeasured; ++i) {
    if (i == kWarmUp) {
      streams.getStream(device_).synchronize();
      started = std::chrono::steady_clock::now();
    }
    trainer_->begin_step(batch.step());
    for (std::int64_t begin = 0; begin < batch.size(); begin += micro) {
      const std::int64_t end = std::min(begin + micro, batch.size());
      trainer_->accumulate(batch.micro(begin, end), batch.weight(), end == batch.size());
    }
    trainer_->abandon();
  }
  streams.getStream(device_).synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count() /
         kMeasured;
}

void Session::build_evaluation() {
  const config::Loader& loader = experiment_.data.loader;
  const bool leave_jpeg = decode_.decode == config::Decode::gpu &&
                          why_not_for_gpu(val_images_->opened(), loader).empty();
  evaluator_ = std::make_unique<Evaluator>(
      EvaluatorParts{*model_, *objective_, *strategy_, *val_, *bad_val_}, experiment_.precision,
      experiment_.batch.evaluate.value(), loader, feed_options(/*training=*/false), leave_jpeg);
  if (val_images_ == nullptr) return;
  const models::InputShape evaluated = val_images_->input_shape(evaluator_->sampler(), loader);
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

data::FeedOptions Session::feed_options(bool training) const {
  data::FeedOptions options;
  options.device = device_;
  options.memory_format = memory_format(experiment_, device_);
  options.classes = outputs();
  options.seed = experiment_.seed;
  options.type = input_type(experiment_, device_);
  if (training) options.mix = experiment_.data.mix;
  return options;
}

checkpoint::Parts Session::checkpoint_parts() {
  checkpoint::Parts parts{{"model", model_.get()}, {"optim", optimisation_.get()}};
  if (ema_) parts.emplace_back("ema", ema_.get());
  return parts;
}

nlohmann::json Session::identity() const {
  nlohmann::json identity{{"batch.global", experiment_.batch.global.value()},
                          {"seed", experiment_.seed},
                          {"data.loader.drop_last", experiment_.data.loader.drop_last},
                          {"data.loader.decode", name_of(decode_.decode)}};
  const nlohmann::json samples = train_->identity();
  for (const auto& [key, value] : samples.items()) identity["data.train " + key] = value;
  return identity;
}

nlohmann::json Session::use() const {
  if (images_ != nullptr) return {{"classes", images_->opened().source->class_names()}};
  nlohmann::json use{{"vocabulary", outputs()}};
  if (!text_->tokenizer().alphabet.empty()) use["alphabet"] = text_->tokenizer().alphabet;
  return use;
}

void Session::start(std::int64_t first, std::int64_t last) {
  StreamOptions options;
  options.first_step = first;
  options.last_step = last;
  options.leave_jpeg = decode_.decode == config::Decode::gpu;
  feed_ =
      train_->stream(*sampler_, experiment_.data.loader, feed_options(/*training=*/true), options);
}

std::vector<std::string> Session::describe() const {
  std::int64_t parameters = 0, trained = 0;
  for (const NamedTensor& parameter : model_->parameters()) {
    parameters += parameter.value.numel();
    if (parameter.value.requires_grad()) trained += parameter.value.numel();
  }
  const config::Batch& batch = experiment_.batch;
  std::vector<std::string> lines{"data.train: " + train_->describe()};
  if (val_) lines.push_back("data.val: " + val_->describe());
  if (!decode_.line.empty()) lines.push_back(decode_.line);
  lines.push_back("model: " + std::to_string(parameters) + " parameters" +
                  (trained == parameters ? "" : ", " + std::to_string(trained) + " trained") +
                  ", " + std::to_string(outputs()) + (text_ != nullptr ? " tokens" : " classes"));
  lines.push_back("batch: " + std::to_string(*batch.global) + " = " + std::to_string(*batch.micro) +
                  " x " + std::to_string(*batch.accumulate) + ", " +
                  std::to_string(plan_.steps_per_epoch) + " steps an epoch" +
                  (plan_.total_steps > 0
                       ? ", " + std::to_string(plan_.total_steps) + " steps in all"
                       : ", for " + human_seconds(plan_.total_seconds)));
  return lines;
}

}  // namespace trainer::engine

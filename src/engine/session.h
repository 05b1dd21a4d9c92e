// All parts of a training, built from an experiment and connected. Only the engine composes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "config/experiment.h"
#include "data/step_batch.h"
#include "distributed/strategy.h"
#include "engine/bad_samples.h"
#include "engine/bundle.h"
#include "engine/decode_choice.h"
#include "engine/device.h"
#include "engine/evaluation.h"
#include "engine/plan.h"
#include "engine/samples.h"
#include "engine/trainer.h"
#include "memory/activation_checkpointing.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "precision/precision.h"

namespace trainer::engine {

struct SessionOptions {
  // A run that does not continue from a checkpoint: model.weights are loaded where the experiment
  // names some.
  bool fresh = true;
  // Where the run that is continued decoded its images.
  std::optional<config::Decode> decode;
};

class Session {
 public:
  // Opens the data, builds the model and everything around it on `device`. Throws Error (config,
  // data, device, out_of_memory) naming the setting or the file.
  Session(const config::Experiment& experiment, at::Device device, const SessionOptions& options);
  ~Session();

  const Plan& plan() const { return plan_; }
  const data::Sampler& sampler() const { return *sampler_; }
  at::Device device() const { return device_; }
  models::Model& model() { return *model_; }
  optim::Ema* ema() { return ema_.get(); }
  Trainer& trainer() { return *trainer_; }
  Evaluator* evaluator() { return evaluator_.get(); }  // null without data.val
  bool has_validation() const { return evaluator_ != nullptr; }

  // The parts that a checkpoint holds.
  checkpoint::Parts checkpoint_parts();
  // What a resumed run must agree with: batch, data, seed; and the class names.
  nlohmann::json identity() const;
  // What using the model needs besides the experiment: class names, or the tokenizer's alphabet.
  nlohmann::json use() const;
  // Floating-point operations of training on one sample, and what the GPU does a second at most;
  // 0 where they are not known. See engine/flops.h.
  double flops_per_sample() const { return flops_per_sample_; }
  double peak_flops() const { return peak_flops_; }
  std::int64_t tokens_per_sample() const { return train_->tokens(); }  // 0 for images

  // Starts bringing batches from step `first` on. Before the first next_batch, once.
  void start(std::int64_t first, std::int64_t last);
  const data::StepBatch* next_batch() { return feed_->next(); }
  data::FeedTimes take_data_times() { return feed_->take_times(); }
  BadSamples& bad_train() { return *bad_train_; }
  BadSamples* bad_val() { return bad_val_.get(); }  // null without data.val

  // Lines for the log: data, model, steps.
  std::vector<std::string> describe() const;

 private:
  void open_data();
  void open_samples();
  void build_model(bool fresh);
  void build_optimisation();
  void choose_decode(std::optional<config::Decode> resumed);
  void build_evaluation();
  double seconds_of_step(const data::StepBatch& batch);
  data::FeedOptions feed_options(bool training) const;
  std::int64_t outputs() const;

  config::Experiment experiment_;
  at::Device device_;
  models::InputShape input_;  // of data.train, which the model is built for
  std::unique_ptr<distributed::Strategy> strategy_;
  std::unique_ptr<Samples> train_, val_;  // val_ may be null
  // The same by their kind, or null.
  const ImageSamples* images_ = nullptr;
  const ImageSamples* val_images_ = nullptr;
  const TextSamples* text_ = nullptr;
  std::unique_ptr<BadSamples> bad_train_, bad_val_;
  std::unique_ptr<data::Sampler> sampler_;
  DecodeChoice decode_;
  std::unique_ptr<data::BatchFeed> feed_;
  Plan plan_;
  double flops_per_sample_ = 0, peak_flops_ = 0;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<memory::ActivationCheckpointing> checkpointing_;
  std::unique_ptr<objectives::Objective> objective_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::Ema> ema_;
  std::unique_ptr<precision::Scaler> scaler_;
  std::unique_ptr<optim::Schedule> schedule_;
  std::unique_ptr<Trainer> trainer_;
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<Bundle> optimisation_;  // optimiser, scaler and trainer as the part "optim"
};

}  // namespace trainer::engine

// All parts of a training, built from an experiment and connected. Only the engine composes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "checkpoint/store.h"
#include "config/experiment.h"
#include "data/feed.h"
#include "data/loader.h"
#include "distributed/strategy.h"
#include "engine/bad_samples.h"
#include "engine/bundle.h"
#include "engine/decode_choice.h"
#include "engine/device.h"
#include "engine/evaluation.h"
#include "engine/opened_data.h"
#include "engine/plan.h"
#include "engine/trainer.h"
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
  void build_model(bool fresh);
  void build_optimisation();
  void choose_decode(std::optional<config::Decode> resumed);
  void build_evaluation();
  double seconds_of_step(const data::StepBatch& batch);
  at::ScalarType input_type() const;
  data::FeedOptions feed_options(bool training) const;
  std::int64_t classes() const;

  config::Experiment experiment_;
  at::Device device_;
  at::MemoryFormat memory_format_ = at::MemoryFormat::Contiguous;
  models::InputShape input_;  // of data.train, which the model is built for
  std::unique_ptr<distributed::Strategy> strategy_;
  OpenedData train_;
  std::optional<OpenedData> val_;
  std::unique_ptr<BadSamples> bad_train_, bad_val_;
  std::unique_ptr<data::Sampler> sampler_;
  DecodeChoice decode_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<data::Feed> feed_;
  Plan plan_;
  std::unique_ptr<models::Model> model_;
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

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
#include "engine/bundle.h"
#include "engine/device.h"
#include "engine/evaluation.h"
#include "engine/plan.h"
#include "engine/trainer.h"
#include "models/model.h"
#include "objectives/objective.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "precision/precision.h"

namespace trainer::engine {

class Session {
 public:
  // Opens the data, builds the model and everything around it on `device`. Throws Error (config,
  // data, device, out_of_memory) naming the setting or the file. With `fresh`, a run that does not
  // continue from a checkpoint, model.weights are loaded where the experiment names some.
  Session(const config::Experiment& experiment, at::Device device, bool fresh);
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
  data::LoaderTimes take_data_times() { return feed_->take_times(); }

  // Lines for the log: data, model, steps.
  std::vector<std::string> describe() const;

 private:
  void open_data();
  void build_model(bool fresh);
  void build_optimisation();
  void build_evaluation();
  data::LoaderOptions loader_options() const;
  data::FeedOptions feed_options(bool training) const;
  std::int64_t classes() const;

  config::Experiment experiment_;
  at::Device device_;
  at::MemoryFormat memory_format_ = at::MemoryFormat::Contiguous;
  models::InputShape input_;  // of data.train, which the model is built for
  std::unique_ptr<distributed::Strategy> strategy_;
  std::unique_ptr<data::Source> train_source_, val_source_;
  std::unique_ptr<data::Pipeline> train_pipeline_, val_pipeline_;
  std::unique_ptr<data::Sampler> sampler_;
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

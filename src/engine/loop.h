// The training loop: steps, evaluations, checkpoints and records in their order.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/store.h"
#include "config/experiment.h"
#include "core/error.h"
#include "engine/generate.h"
#include "engine/progress.h"
#include "engine/session.h"
#include "engine/step_results.h"
#include "memory/memory.h"
#include "monitor/record.h"

namespace trainer::engine {

class Loop {
 public:
  // All of it outlives the loop. `about` goes into each checkpoint's state.json: what using it
  // needs besides its tensors. `progress` is where to go on from; the session's parts hold the
  // state that belongs to it.
  Loop(const config::Experiment& experiment, Session& session, checkpoint::Store& store,
       std::vector<std::unique_ptr<monitor::Sink>>& sinks, Progress progress, nlohmann::json about);

  // Trains to the end, or until a signal. Exit::done, interrupted or terminated; the last state is
  // on disk when it returns. Throws Error after saving what can be saved: not_finite with the state
  // before the step that failed, data and out_of_memory with the state after the last whole step.
  Exit run();

  const Progress& progress() const { return progress_; }

 private:
  struct Launched {  // what the host knew of a step when it was launched
    std::int64_t step = 0;
    data::StepPlace place;
    std::int64_t size = 0;  // samples that counted
    data::FeedTimes data;
    memory::Statistics memory;  // on CUDA
  };

  void train_until_stopped();
  bool finished() const;
  bool due(const Cadence& cadence, double since_seconds) const;
  void train_step();
  void evaluate();
  void write_sample();  // log.samples
  void judge(const Metrics& metrics);
  void save();
  void store_state();
  bool log_due(std::int64_t step);
  // Reads the steps that have finished; with `all`, waits for every one under way.
  void collect(bool all);
  void take(const FinishedStep& finished);
  void add_throughput(const FinishedStep& finished, const Launched& launched,
                      monitor::Record& record) const;
  void write_step(const FinishedStep& finished, const Launched& launched);
  void write(const monitor::Record& record);
  void flush();
  void tick();  // brings progress_.seconds up to now
  [[noreturn]] void stop_not_finite(const FinishedStep& finished, const Launched& launched,
                                    const std::string& why);

  const config::Experiment& experiment_;
  Session& session_;
  checkpoint::Store& store_;
  std::vector<std::unique_ptr<monitor::Sink>>& sinks_;
  Progress progress_;
  StepResults results_;
  std::deque<Launched> launched_;
  std::unique_ptr<SampleWriter> samples_;  // null without log.samples
  nlohmann::json about_;
  std::int64_t saved_step_;
  bool best_is_new_ = false;  // the best metric belongs to a step that no checkpoint holds yet
  double last_tick_;
  double last_logged_ = 0;
  double last_flush_ = 0;
};

}  // namespace trainer::engine

#include "engine/loop.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>

#include "core/log.h"
#include "core/text.h"
#include "engine/signals.h"

namespace trainer::engine {
namespace {

// After so many skipped updates in a row a run does not recover by itself.
constexpr std::int64_t kMostSkippedInRow = 50;
constexpr double kSecondsBetweenFlushes = 0.5;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Resident memory of this process in bytes; 0 where /proc does not say.
std::int64_t resident_bytes() {
  std::int64_t pages = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The averaged weights in the model's place while it lives, also where an evaluation fails.
class Averages {
 public:
  explicit Averages(optim::Ema* ema) : ema_(ema) {
    if (ema_ != nullptr) ema_->swap();
  }
  ~Averages() {
    if (ema_ != nullptr) ema_->swap();
  }
  Averages(const Averages&) = delete;
  Averages& operator=(const Averages&) = delete;

 private:
  optim::Ema* ema_;
};

std::string of_step(std::int64_t step, const data::StepPlace& place) {
  return "step " + std::to_string(step) + " (epoch " + std::to_string(place.epoch + 1) +
         ", positions " + std::to_string(place.global.begin) + " to " +
         std::to_string(place.global.end - 1) + ")";
}

}  // namespace

Loop::Loop(const config::Experiment& experiment, Session& session, checkpoint::Store& store,
           std::vector<std::unique_ptr<monitor::Sink>>& sinks, Progress progress,
           nlohmann::json about)
    : experiment_(experiment),
      session_(session),
      store_(store),
      sinks_(sinks),
      progress_(std::move(progress)),
      results_(session.device()),
      about_(std::move(about)),
      saved_step_(progress_.step),
      last_tick_(now()) {
  if (experiment.log.samples) samples_ = std::make_unique<SampleWriter>(experiment, session.use());
}

Exit Loop::run() {
  try {
    train_until_stopped();
  } catch (const Error& failure) {
    // The step that failed left no trace: what is done so far is worth keeping.
    if (failure.code() == Exit::data || failure.code() == Exit::out_of_memory) {
      collect(true);
      if (saved_step_ != progress_.step) save();
      store_.wait();
      if (progress_.step > 0)
        log::info("the state after step " + std::to_string(progress_.step) + " is saved");
    }
    throw;
  }
  if (saved_step_ != progress_.step) save();
  store_.wait();
  switch (stop_signal().load()) {
    case 0:
      return Exit::done;
    case SIGINT:
      return Exit::interrupted;
    default:
      return Exit::terminated;
  }
}

void Loop::train_until_stopped() {
  for (;;) {
    const bool last = finished();
    const bool evaluates = session_.has_validation() && progress_.step > 0 &&
                           progress_.evaluated_step != progress_.step &&
                           (last || due(session_.plan().evaluate, progress_.evaluated_seconds));
    if (evaluates) evaluate();
    if (stop_signal().load() != 0) break;
    if (saved_step_ != progress_.step &&
        (best_is_new_ || due(session_.plan().checkpoint, progress_.saved_seconds)))
      save();
    if (last || progress_.stopped_early) break;
    train_step();
  }
  collect(true);
  flush();
}

bool Loop::finished() const {
  const Plan& plan = session_.plan();
  return plan.total_steps > 0 ? progress_.step >= plan.total_steps
                              : progress_.seconds >= plan.total_seconds;
}

bool Loop::due(const Cadence& cadence, double since_seconds) const {
  if (cadence.steps > 0) return progress_.step % cadence.steps == 0;
  return cadence.seconds > 0 && progress_.seconds - since_seconds >= cadence.seconds;
}

void Loop::train_step() try {
  const data::StepBatch* batch = session_.next_batch();
  if (batch == nullptr) throw Error(Exit::internal, "the loader ended before the run");
  session_.bad_train().take(progress_.step + 1, batch->bad());
  const at::Tensor row = session_.trainer().step(*batch, experiment_.batch.micro.value());
  if (results_.full()) collect(false);
  results_.push(progress_.step + 1, row);

  Launched launched{
      progress_.step + 1, batch->place(), batch->size(), session_.take_data_times(), {}};
  if (session_.device().is_cuda()) launched.memory = memory::statistics(session_.device().index());
  launched_.push_back(launched);
  ++progress_.step;
  tick();
  collect(false);
} catch (const c10::OutOfMemoryError& failure) {
  const std::string detail = failure.what_without_backtrace();
  session_.trainer().abandon();
  throw Error(Exit::out_of_memory,
              "out of memory on " + session_.device().str() + " in step " +
                  std::to_string(progress_.step + 1) + " with batch.micro " +
                  std::to_string(experiment_.batch.micro.value()) +
                  ". A smaller batch.micro needs less, with the same batch.global and the same "
                  "result: try --set batch.micro=" +
                  std::to_string(std::max<std::int64_t>(1, experiment_.batch.micro.value() / 2)) +
                  "\n  " + detail);
}

void Loop::evaluate() try {
  collect(true);
  std::optional<Metrics> metrics;
  {
    const Averages averages(session_.ema());
    metrics = session_.evaluator()->run(progress_.step, stop_signal());
    if (metrics) write_sample();
  }
  results_.resume_clock();
  tick();
  if (!metrics) return;  // a signal: the resumed run evaluates this step again
  progress_.evaluated_step = progress_.step;
  progress_.evaluated_seconds = progress_.seconds;
  monitor::Record record;
  record.kind = monitor::Record::Kind::evaluation;
  record.add("step", progress_.step);
  for (const auto& [name, value] : *metrics) record.add(name, value);
  write(record);
  flush();
  judge(*metrics);
} catch (const c10::OutOfMemoryError& failure) {
  const std::int64_t batch = experiment_.batch.evaluate.value();
  throw Error(Exit::out_of_memory,
              "out of memory on " + session_.device().str() + " in the evaluation after step " +
                  std::to_string(progress_.step) + " with batch.evaluate " + std::to_string(batch) +
                  ". A smaller one gives the same result: try --set " +
                  "batch.evaluate=" + std::to_string(std::max<std::int64_t>(1, batch / 2)) +
                  "\n  " + failure.what_without_backtrace());
}

void Loop::write_sample() {
  if (samples_) samples_->write(session_.model(), session_.device(), progress_.step);
}

void Loop::judge(const Metrics& metrics) {
  progress_.last_metrics = nlohmann::json::object();
  for (const auto& [name, value] : metrics) progress_.last_metrics[name] = value;
  const auto value_of = [&](const std::string& wanted) {
    for (const auto& [name, value] : metrics)
      if (name == wanted) return value;
    return std::nan("");
  };
  if (const auto& best = experiment_.checkpoint.best;
      best && progress_.best.improves(value_of(best->metric), best->mode)) {
    progress_.best.step = progress_.step;
    best_is_new_ = true;
  }
  if (const auto& early = experiment_.train.stop_early) {
    if (progress_.early.improves(value_of(early->metric), early->mode, early->min_delta)) {
      progress_.early.step = progress_.step;
      progress_.evaluations_without_gain = 0;
    } else if (++progress_.evaluations_without_gain >= early->patience) {
      progress_.stopped_early = true;
      log::info("stopping early: " + early->metric + " has not improved for " +
                std::to_string(early->patience) + " evaluations");
    }
  }
}

void Loop::save() {
  // Every record up to this step reaches the disk before the checkpoint does: a run that resumes
  // from it has them all.
  collect(true);
  flush();
  store_state();
}

void Loop::store_state() {
  tick();
  progress_.saved_seconds = progress_.seconds;
  nlohmann::json values = about_;
  values["progress"] = progress_.to_json();
  values["identity"] = session_.identity();
  store_.save(progress_.step, session_.checkpoint_parts(), values, best_is_new_);
  saved_step_ = progress_.step;
  best_is_new_ = false;
  results_.resume_clock();
}

void Loop::collect(bool all) {
  while (const auto finished = results_.pop(all || results_.full())) take(*finished);
}

void Loop::take(const FinishedStep& finished) {
  const Launched launched = launched_.front();
  launched_.pop_front();
  if (finished.values.halted != 0) stop_not_finite(finished, launched, "");
  if (finished.values.skipped != 0) {
    ++progress_.skipped;
    if (++progress_.skipped_in_row >= kMostSkippedInRow) {
      stop_not_finite(finished, launched,
                      std::to_string(kMostSkippedInRow) + " updates in a row were skipped; ");
    }
  } else {
    progress_.skipped_in_row = 0;
  }
  if (log_due(finished.step)) write_step(finished, launched);
}

bool Loop::log_due(std::int64_t step) {
  const Cadence& cadence = session_.plan().log;
  if (cadence.steps > 0) return step % cadence.steps == 0;
  if (now() - last_logged_ < cadence.seconds) return false;
  last_logged_ = now();
  return true;
}

void Loop::add_throughput(const FinishedStep& finished, const Launched& launched,
                          monitor::Record& record) const {
  const double rate = 1000.0 * static_cast<double>(launched.size) / finished.milliseconds;
  record.add("samples_per_s", rate);
  const std::int64_t tokens = session_.tokens_per_sample();
  if (tokens == 0) return;
  record.add("tokens_per_s", rate * static_cast<double>(tokens));
  if (session_.peak_flops() > 0)
    record.add("mfu", rate * session_.flops_per_sample() / session_.peak_flops());
}

void Loop::write_step(const FinishedStep& finished, const Launched& launched) {
  const StepValues& values = finished.values;
  monitor::Record record;
  record.add("step", finished.step);
  record.add("epoch", launched.place.epoch + 1);
  const std::int64_t samples =
      launched.place.epoch * session_.sampler().samples_per_epoch() + launched.place.global.end;
  record.add("samples", samples);
  if (const std::int64_t tokens = session_.tokens_per_sample(); tokens > 0)
    record.add("tokens", samples * tokens);
  record.add("loss", static_cast<double>(values.loss));
  record.add("lr", static_cast<double>(values.lr));
  record.add("grad_norm", static_cast<double>(values.grad_norm));
  if (experiment_.precision.mode == config::PrecisionMode::fp16)
    record.add("loss_scale", static_cast<double>(values.loss_scale));
  if (progress_.skipped > 0) record.add("skipped", progress_.skipped);
  record.add("seconds", progress_.seconds);
  record.add("step_ms", finished.milliseconds);
  record.add("data_wait_ms", launched.data.wait_ms);
  if (session_.tokens_per_sample() == 0) {
    record.add("data_read_ms", launched.data.stages.read_ms);
    record.add("data_decode_ms", launched.data.stages.decode_ms);
    record.add("data_transform_ms", launched.data.stages.transform_ms);
    record.add("read_mb_s", static_cast<double>(launched.data.stages.read_bytes) / 1000.0 /
                                finished.milliseconds);
  }
  if (session_.device().is_cuda()) record.add("data_deliver_ms", launched.data.deliver_ms);
  add_throughput(finished, launched, record);
  if (session_.device().is_cuda()) {
    record.add("mem_allocated", launched.memory.allocated);
    record.add("mem_peak", launched.memory.peak);
    record.add("mem_reserved", launched.memory.reserved);
  }
  record.add("mem_host", resident_bytes());
  write(record);
  // Often enough for someone who watches, rarely enough to cost nothing.
  if (now() - last_flush_ >= kSecondsBetweenFlushes) flush();
}

void Loop::write(const monitor::Record& record) {
  for (const auto& sink : sinks_) sink->write(record);
}

void Loop::flush() {
  last_flush_ = now();
  for (const auto& sink : sinks_) sink->flush();
}

void Loop::tick() {
  const double time = now();
  progress_.seconds += time - last_tick_;
  last_tick_ = time;
}

void Loop::stop_not_finite(const FinishedStep& finished, const Launched& launched,
                           const std::string& why) {
  write_step(finished, launched);
  flush();
  while (results_.pop(true)) launched_.pop_front();
  if (finished.values.halted != 0) {
    // Steps launched after the one that failed did nothing on the device (it latches the stop), so
    // the state there is that of the step before it.
    session_.trainer().clear_halt();
    progress_.step = finished.step - 1;
  }
  if (saved_step_ != progress_.step) store_state();
  store_.wait();
  const bool loss_is_finite = std::isfinite(finished.values.loss);
  throw Error(Exit::not_finite,
              why + (loss_is_finite ? "the gradient" : "the loss") + " is not finite in " +
                  of_step(finished.step, launched.place) +
                  ". The weights were not updated, and the state before this step is saved. Try a "
                  "lower optim.lr, optim.clip_norm: 1.0, a longer schedule.warmup or precision "
                  "bf16 or fp32; or train.on_nonfinite: skip, which leaves such steps out.");
}

}  // namespace trainer::engine

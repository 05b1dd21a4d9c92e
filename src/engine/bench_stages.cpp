#include "engine/bench_stages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/feed.h"
#include "data/loader.h"
#include "data/sample_maker.h"
#include "data/sources/parallel.h"
#include "engine/session.h"
#include "engine/step_results.h"
#include "memory/memory.h"

namespace trainer::engine {
namespace {

using Clock = std::chrono::steady_clock;
using config::Decode;

constexpr std::int64_t kNoEnd = std::numeric_limits<std::int64_t>::max();

double since(Clock::time_point started) {
  return std::chrono::duration<double>(Clock::now() - started).count();
}

// 0, 1, 2, ... for many threads, until the time is over or a thread has failed.
class Positions {
 public:
  explicit Positions(double seconds) : started_(Clock::now()), seconds_(seconds) {}

  // The first is always given, so that something is measured.
  std::optional<std::int64_t> next() {
    const std::int64_t position = next_++;
    if (stopped_ || (position > 0 && elapsed() >= seconds_)) return std::nullopt;
    return position;
  }
  void stop() { stopped_ = true; }
  double elapsed() const { return since(started_); }

 private:
  Clock::time_point started_;
  double seconds_;
  std::atomic<std::int64_t> next_ = 0;
  std::atomic<bool> stopped_ = false;
};

// Runs `work` on `threads` threads, which share the positions, and returns the seconds that it
// took. Rethrows what one of them threw.
double on_threads(int threads, double seconds, const std::function<void(Positions&)>& work) {
  Positions positions(seconds);
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&] {
    try {
      work(positions);
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      positions.stop();
    }
  };
  {
    std::vector<std::jthread> workers;
    for (int i = 0; i < threads; ++i) workers.emplace_back(guarded);
  }
  if (failure) std::rethrow_exception(failure);
  return positions.elapsed();
}

// Does it; a bad sample is passed over where it would not end a run. Whether it was good.
template <class Do>
bool unless_bad(const BenchRig& rig, Do&& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    const bool ends = rig.experiment.data.loader.on_bad_sample == config::BadSample::fail;
    if (ends || error.code() != Exit::data) throw;
    return false;
  }
}

std::int64_t sample_at(const data::Sampler& sampler, std::int64_t position) {
  return sampler.sample(position / sampler.samples(), position % sampler.samples());
}

// Mapped files are not read before their pages are touched.
std::uint64_t touch(data::Bytes bytes) {
  constexpr std::size_t kPage = 4096;
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += kPage) sum += bytes[at];
  return sum;
}

// The first samples of an epoch, as another source holds them, in memory.
class Preloaded : public data::Source {
 public:
  static constexpr std::int64_t kMostSamples = 2000;
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

  explicit Preloaded(const BenchRig& rig) : source_(*rig.uncached.source) {
    std::vector<Sample> all(
        static_cast<std::size_t>(std::min(kMostSamples, rig.sampler.samples())));
    std::atomic<std::int64_t> total = 0;
    data::for_each_in_parallel(all.size(), [&](std::size_t i) {
      if (total >= kMostBytes) return;
      Sample& sample = all[i];
      sample.index = sample_at(rig.sampler, static_cast<std::int64_t>(i));
      std::vector<std::uint8_t> buffer;
      sample.loaded = unless_bad(rig, [&] {
        sample.raw = source_.fetch(sample.index, buffer);
        sample.bytes.assign(sample.raw.bytes.begin(), sample.raw.bytes.end());
      });
      sample.raw.bytes = sample.bytes;
      total += static_cast<std::int64_t>(sample.bytes.size());
    });
    for (Sample& sample : all)
      if (sample.loaded) samples_.push_back(std::move(sample));
    if (samples_.empty()) throw Error(Exit::data, source_.describe() + ": no sample can be read");
  }

  std::int64_t size() const override { return std::ssize(samples_); }
  const std::vector<std::string>& class_names() const override { return source_.class_names(); }
  std::int64_t classes() const override { return source_.classes(); }
  bool encoded() const override { return source_.encoded(); }
  int channels() const override { return source_.channels(); }
  data::Raw fetch(std::int64_t index, std::vector<std::uint8_t>& /*buffer*/) const override {
    return of(index).raw;
  }
  std::int64_t label(std::int64_t index) const override { return source_.label(of(index).index); }
  std::string sample_name(std::int64_t index) const override {
    return source_.sample_name(of(index).index);
  }
  std::string describe() const override { return source_.describe(); }
  std::uint64_t fingerprint() const override { return source_.fingerprint(); }

 private:
  struct Sample {
    std::int64_t index = 0;
    bool loaded = false;
    std::vector<std::uint8_t> bytes;
    data::Raw raw;
  };
  const Sample& of(std::int64_t index) const { return samples_[static_cast<std::size_t>(index)]; }

  const data::Source& source_;
  std::vector<Sample> samples_;
};

data::LoaderOptions loader_options(const BenchRig& rig, Decode decode) {
  data::LoaderOptions options =
      rig.train.loader_options(rig.experiment.data.loader, rig.device.is_cuda());
  options.last_step = kNoEnd;
  options.leave_jpeg = decode == Decode::gpu;
  return options;
}

struct Made {
  std::int64_t images = 0;
  data::StageTimes times;  // summed over the threads
};

// Makes the samples of the maker's source again and again, each into memory of its thread.
Made make_samples(const BenchRig& rig, const data::SampleMaker& maker, double seconds) {
  const std::int64_t samples = maker.source().size();
  std::mutex mutex;
  Made all;
  on_threads(rig.threads(), seconds, [&](Positions& positions) {
    data::SampleMaker::Thread thread(maker);
    std::vector<std::uint8_t> pixels;
    std::int64_t images = 0;
    while (const auto position = positions.next()) {
      const std::int64_t index = *position % samples;
      images += unless_bad(rig, [&] {
        maker.open(*position / samples, index, thread);
        const data::SamplePlan& plan = thread.plan();
        pixels.resize(static_cast<std::size_t>(plan.final_height) *
                      static_cast<std::size_t>(plan.final_width) *
                      static_cast<std::size_t>(maker.pipeline().channels()));
        maker.make(index, thread, pixels.data());
      });
    }
    const std::lock_guard lock(mutex);
    all.images += images;
    all.times += thread.times();
  });
  return all;
}

template <class AnyBatch>
const AnyBatch& present(const AnyBatch* batch) {
  if (batch == nullptr) throw Error(Exit::internal, "the loader gave no batch");
  return *batch;
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

// Counts what `next` returns, images, until the time is over.
template <class Next>
Measured count_images(double seconds, Next&& next) {
  Measured measured;
  const double cpu_before = cpu_seconds();
  const auto started = Clock::now();
  do {
    measured.images += next();
    measured.seconds = since(started);
  } while (measured.seconds < seconds);
  measured.cpu_seconds = cpu_seconds() - cpu_before;
  return measured;
}

// Trains steps one after another; waits for the device at the end only.
class Steps {
 public:
  Steps(const BenchRig& rig, Session& session)
      : micro_(rig.experiment.batch.micro.value()), session_(session), results_(session.device()) {}

  std::int64_t train(const data::StepBatch& batch) {
    if (results_.full()) results_.pop(/*wait=*/true);
    results_.push(++step_, session_.trainer().step(batch, micro_));
    return batch.size();
  }
  void wait() {
    while (results_.pop(/*wait=*/true)) {
    }
  }

 private:
  std::int64_t micro_;
  Session& session_;
  StepResults results_;
  std::int64_t step_ = 0;
};

// The first steps pay for libraries' set-up and their choice of algorithms.
constexpr int kWarmUpSteps = 3;

// Steps on what `next` returns.
template <class Next>
Measured measure_steps(const BenchRig& rig, Session& session, Next&& next) {
  Steps steps(rig, session);
  for (int i = 0; i < kWarmUpSteps; ++i) steps.train(next());
  steps.wait();
  const auto started = Clock::now();
  Measured measured = count_images(rig.seconds, [&] { return steps.train(next()); });
  steps.wait();
  measured.seconds = since(started);
  return measured;
}

// The run's experiment without what it does beside training.
config::Experiment training_alone(const BenchRig& rig, Decode decode) {
  config::Experiment experiment = rig.experiment;
  experiment.data.val.reset();
  experiment.data.loader.decode = decode;
  return experiment;
}

}  // namespace

int BenchRig::threads() const {
  return std::max(1, worker_count(experiment.data.loader.workers, device.is_cuda()));
}

Measured measure_read(const BenchRig& rig) {
  const data::Source& source = *rig.uncached.source;
  std::mutex mutex;
  Measured all;
  std::uint64_t touched = 0;
  all.seconds = on_threads(rig.threads(), rig.seconds, [&](Positions& positions) {
    std::vector<std::uint8_t> buffer;
    Measured own;
    std::uint64_t sum = 0;
    while (const auto position = positions.next()) {
      own.images += unless_bad(rig, [&] {
        const data::Raw raw = source.fetch(sample_at(rig.sampler, *position), buffer);
        sum += touch(raw.bytes);
        own.bytes += static_cast<std::int64_t>(raw.bytes.size());
      });
    }
    const std::lock_guard lock(mutex);
    all.images += own.images;
    all.bytes += own.bytes;
    touched += sum;
  });
  return all;
}

DecodeAndTransform measure_decode_and_transform(const BenchRig& rig) {
  const Preloaded source(rig);
  const data::SampleMaker maker(source, *rig.uncached.pipeline, rig.uncached.samples);
  // The first files pay for loading the module that decodes their format.
  make_samples(rig, maker, rig.seconds / 10);
  const Made made = make_samples(rig, maker, rig.seconds);
  const double per_thread = 1000.0 * rig.threads();
  return {{made.images, made.times.decode_ms / per_thread, made.times.read_bytes},
          {made.images, made.times.transform_ms / per_thread, 0}};
}

Measured measure_host(const BenchRig& rig, Decode decode) {
  data::Loader loader(*rig.train.source, *rig.train.pipeline, rig.sampler,
                      loader_options(rig, decode));
  const auto next = [&loader] {
    const std::int64_t images = present(loader.next()).size;
    loader.release();
    return images;
  };
  next();
  loader.take_times();
  Measured measured = count_images(rig.seconds, next);
  measured.bytes = loader.take_times().stages.read_bytes;
  return measured;
}

Measured measure_copy(const BenchRig& rig) {
  data::LoaderOptions options;
  options.samples = rig.train.samples;
  options.on_bad_sample = rig.experiment.data.loader.on_bad_sample;
  const data::Loader loader(*rig.train.source, *rig.train.pipeline, rig.sampler, options);
  const auto bytes = static_cast<std::int64_t>(loader.slot_bytes());
  const memory::HostBuffer host = memory::allocate_host(loader.slot_bytes(), /*pinned=*/true);
  const at::Tensor from = at::from_blob(host.data, {bytes}, at::kByte);
  const at::Tensor to = at::empty({bytes}, at::TensorOptions(rig.device).dtype(at::kByte));
  const c10::impl::VirtualGuardImpl streams(rig.device.type());
  const auto copy = [&] {
    to.copy_(from, /*non_blocking=*/true);
    streams.getStream(rig.device).synchronize();
    return loader.capacity();
  };
  copy();
  Measured measured = count_images(rig.seconds, copy);
  measured.bytes = measured.images / loader.capacity() * bytes;
  return measured;
}

Measured measure_delivered(const BenchRig& rig, Decode decode) {
  data::Loader loader(*rig.train.source, *rig.train.pipeline, rig.sampler,
                      loader_options(rig, decode));
  data::FeedOptions options;
  options.device = rig.device;
  data::Feed feed(loader, rig.train.pipeline->normalisation(), rig.train.pipeline->erases(),
                  options);
  const auto next = [&feed] {
    const data::StepBatch& batch = present(feed.next());
    batch.micro(0, batch.size());
    return batch.size();
  };
  next();
  feed.take_times();
  Measured measured = count_images(rig.seconds, next);
  measured.bytes = feed.take_times().stages.read_bytes;
  return measured;
}

Measured measure_step(const BenchRig& rig) {
  Session session(training_alone(rig, Decode::cpu), rig.device, {});
  session.start(0, 1);
  const data::StepBatch& batch = present(session.next_batch());
  return measure_steps(rig, session, [&batch]() -> const data::StepBatch& { return batch; });
}

Measured measure_all(const BenchRig& rig, Decode decode) {
  Session session(training_alone(rig, decode), rig.device, {});
  session.start(0, kNoEnd);
  return measure_steps(rig, session, [&session]() -> const data::StepBatch& {
    return present(session.next_batch());
  });
}

}  // namespace trainer::engine

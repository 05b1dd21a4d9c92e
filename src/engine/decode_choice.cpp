#include "engine/decode_choice.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <limits>

#include "core/error.h"

namespace trainer::engine {
namespace {

using Clock = std::chrono::steady_clock;
using config::Decode;

constexpr double kProbeSeconds = 0.7;
// By how much the CPU has to be faster than the step for the step to never wait.
constexpr double kClearly = 1.15;

double seconds_since(Clock::time_point started) {
  return std::chrono::duration<double>(Clock::now() - started).count();
}

data::LoaderOptions probe_options(const OpenedData& data, const config::Loader& config,
                                  Decode decode) {
  data::LoaderOptions options = data.loader_options(config, /*cuda=*/true);
  options.leave_jpeg = decode == Decode::gpu;
  options.last_step = std::numeric_limits<std::int64_t>::max();
  return options;
}

// A loader and its feed, for as long as something is measured.
class Probe {
 public:
  Probe(const config::Experiment& experiment, const OpenedData& data, const data::Sampler& sampler,
        const data::FeedOptions& feed, Decode decode)
      : loader_(*data.source, *data.pipeline, sampler,
                probe_options(data, experiment.data.loader, decode)),
        feed_(loader_, data.pipeline->normalisation(), data.pipeline->erases(), feed) {}

  // Images a second that arrive on the device. The first batch, which pays for starting, does not
  // count.
  double images_per_second() {
    next();
    const auto started = Clock::now();
    std::int64_t images = 0;
    double seconds = 0;
    while (seconds < kProbeSeconds) {
      images += next().size();
      seconds = seconds_since(started);
    }
    return static_cast<double>(images) / seconds;
  }

  const data::StepBatch& next() {
    const data::StepBatch* batch = feed_.next();
    if (batch == nullptr) throw Error(Exit::internal, "the loader ended while it was measured");
    return *batch;
  }

 private:
  data::Loader loader_;
  data::Feed feed_;
};

std::string rate(double images_per_second) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f images/s", images_per_second);
  return text.data();
}

DecodeChoice measured(const config::Experiment& experiment, const OpenedData& train,
                      const data::Sampler& sampler, const data::FeedOptions& feed,
                      const TimeStep& time_step) {
  const double gpu = Probe(experiment, train, sampler, feed, Decode::gpu).images_per_second();
  Probe on_cpu(experiment, train, sampler, feed, Decode::cpu);
  const double cpu = on_cpu.images_per_second();
  std::string seen = "measured: gpu " + rate(gpu) + ", cpu " + rate(cpu);
  Decode better = faster_decode(cpu, gpu, std::nullopt);
  if (better == Decode::gpu) {
    const data::StepBatch& batch = on_cpu.next();
    const double step = static_cast<double>(batch.size()) / time_step(batch);
    seen += ", the training step " + rate(step);
    better = faster_decode(cpu, gpu, step);
  }
  return {better, std::string("decode: ") + name_of(better) + " (" + seen +
                      "; data.loader.decode fixes it)"};
}

}  // namespace

Decode faster_decode(double cpu, double gpu, std::optional<double> step) {
  const bool keeps_up = step && cpu >= kClearly * *step;
  return cpu >= gpu || keeps_up ? Decode::cpu : Decode::gpu;
}

const char* name_of(Decode decode) {
  switch (decode) {
    case Decode::cpu:
      return "cpu";
    case Decode::gpu:
      return "gpu";
    default:
      return "auto";
  }
}

std::string why_not_for_gpu(const OpenedData& data, const config::Loader& loader) {
  if (!data.source->encoded()) return "the source holds pixels, not image files";
  if (const char* transform = data.pipeline->cpu_only())
    return std::string("the GPU does not do ") + transform;
  const auto* cache = std::get_if<config::RamCache>(&loader.cache);
  if (cache != nullptr && cache->holds == config::CacheHolds::decoded)
    return "data.loader.cache holds decoded samples";
  return {};
}

std::string why_no_gpu_decoding(const OpenedData& data, const config::Loader& loader,
                                const data::Sampler& sampler, at::Device device) {
  const std::string unsuited = why_not_for_gpu(data, loader);
  if (!unsuited.empty()) return unsuited;
  data::LoaderOptions options;
  options.samples = data.samples;
  const data::Loader probe(*data.source, *data.pipeline, sampler, options);
  return data::no_gpu_decoding(probe, device);
}

DecodeChoice choose_decode(const config::Experiment& experiment, const OpenedData& train,
                           const data::Sampler& sampler, const data::FeedOptions& feed,
                           std::optional<Decode> resumed, const TimeStep& time_step) {
  const config::Loader& loader = experiment.data.loader;
  if (loader.decode == Decode::cpu) return {};
  const bool automatic = loader.decode == Decode::automatic;
  if (automatic && resumed == Decode::cpu) return {};
  if (automatic && !feed.device.is_cuda()) return {};
  const std::string reason = why_no_gpu_decoding(train, loader, sampler, feed.device);
  if (!reason.empty()) {
    const bool was_gpu = resumed == Decode::gpu;
    if (automatic && !was_gpu)
      return {Decode::cpu, train.source->encoded() ? "decode: cpu (" + reason + ")" : ""};
    throw Error(Exit::device,
                std::string(automatic ? "the run that is resumed decodes its images on the GPU, "
                                        "which cannot be done here: "
                                      : "data.loader.decode is gpu, which cannot be done here: ") +
                    reason +
                    (automatic ? "; set data.loader.decode: cpu and give --allow-changes"
                               : "; set it to auto or cpu"));
  }
  if (!automatic || resumed) return {Decode::gpu, "decode: gpu"};
  if (experiment.deterministic)
    return {Decode::cpu, "decode: cpu (deterministic: a measurement would not repeat)"};
  return measured(experiment, train, sampler, feed, time_step);
}

}  // namespace trainer::engine

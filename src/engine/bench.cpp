#include "engine/bench.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/cpu.h"
#include "core/error.h"
#include "core/log.h"
#include "engine/bench_stages.h"
#include "engine/bench_verdict.h"
#include "engine/decode_choice.h"
#include "engine/device.h"
#include "engine/failures.h"
#include "memory/memory.h"
#include "precision/precision.h"

namespace trainer::engine {
namespace {

using config::Decode;

struct Row {
  std::string stage;
  std::optional<Decode> decode;  // where it makes a difference
  int threads = 0;
  Measured measured;

  double images_per_s() const { return rounded(static_cast<double>(measured.images)); }
  double mb_per_s() const { return rounded(static_cast<double>(measured.bytes) / 1e6); }
  double cpus() const { return rounded(measured.cpu_seconds); }  // busy on average

 private:
  // The table and the JSON object show the same numbers.
  double rounded(double amount) const {
    return std::round(10.0 * amount / std::max(measured.seconds, 1e-9)) / 10.0;
  }
};

void print_header() {
  std::printf("%-10s %-7s %7s %6s %14s %12s\n", "stage", "decode", "threads", "CPUs", "images/s",
              "MB/s");
}

void print(const Row& row) {
  std::printf("%-10s %-7s %7d", row.stage.c_str(), row.decode ? name_of(*row.decode) : "",
              row.threads);
  if (row.measured.cpu_seconds > 0)
    std::printf(" %6.1f", row.cpus());
  else
    std::printf(" %6s", "");
  std::printf(" %14.1f", row.images_per_s());
  if (row.measured.bytes > 0) std::printf(" %12.1f", row.mb_per_s());
  std::printf("\n");
  std::fflush(stdout);
}

nlohmann::json to_json(const Row& row) {
  nlohmann::json json{{"stage", row.stage},
                      {"threads", row.threads},
                      {"images", row.measured.images},
                      {"seconds", row.measured.seconds},
                      {"images_per_s", row.images_per_s()}};
  if (row.decode) json["decode"] = name_of(*row.decode);
  if (row.measured.cpu_seconds > 0) json["cpus"] = row.cpus();
  if (row.measured.bytes > 0) {
    json["bytes"] = row.measured.bytes;
    json["mb_per_s"] = row.mb_per_s();
  }
  return json;
}

class Bench {
 public:
  Bench(const BenchOptions& options, at::Device device)
      : options_(options),
        experiment_(options.experiment),
        device_(device),
        train_(open_data(experiment_.data.train, experiment_.data.loader, experiment_.seed,
                         /*augment=*/true)),
        uncached_(open_uncached()),
        sampler_(train_.source->size(), experiment_.batch.global.value(),
                 experiment_.data.loader.drop_last, /*shuffle=*/true, experiment_.seed),
        rig_{experiment_, device_,        train_, uncached_ ? *uncached_ : train_,
             sampler_,    options.seconds} {
    choose_decodes();
  }

  void run() {
    if (!options_.json) print_header();
    measure_parts();
    for (const Decode decode : decodes_)
      if (wants("host")) add({"host", shown(decode), rig_.threads(), measure_host(rig_, decode)});
    measure_transfers();
    if (wants("step")) {
      const int threads = device_.is_cuda() ? 1 : at::get_num_threads();
      add({"step", std::nullopt, threads, measure_step(rig_)});
    }
    for (const Decode decode : decodes_)
      if (wants("all")) add({"all", shown(decode), rig_.threads(), measure_all(rig_, decode)});
  }

  void report() const {
    if (options_.json) return report_json();
    for (const auto& [what, reason] : left_out_)
      std::printf("left out: %s, since %s\n", what.c_str(), reason.c_str());
    std::printf("%s\n", verdict().c_str());
  }

 private:
  // Nothing where the run has no cache anyway.
  std::optional<OpenedData> open_uncached() const {
    config::Loader loader = experiment_.data.loader;
    if (std::holds_alternative<config::NoCache>(loader.cache)) return std::nullopt;
    loader.cache = config::NoCache{};
    return open_data(experiment_.data.train, loader, experiment_.seed, /*augment=*/true);
  }

  void choose_decodes() {
    const Decode wanted = experiment_.data.loader.decode;
    if (wanted == Decode::gpu) {
      data::FeedOptions feed;
      feed.device = device_;
      choose_decode(experiment_, train_, sampler_, feed, std::nullopt, {});  // throws if it cannot
    }
    decodes_ = {Decode::cpu};
    if (!device_.is_cuda() || !train_.source->encoded()) return;
    const std::string reason =
        why_no_gpu_decoding(train_, experiment_.data.loader, sampler_, device_);
    if (reason.empty())
      decodes_.push_back(Decode::gpu);
    else
      left_out_.emplace_back("decoding on the GPU", reason);
  }

  bool wants(const std::string& stage) const {
    const auto& stages = options_.stages;
    return stages.empty() || std::find(stages.begin(), stages.end(), stage) != stages.end();
  }
  // Wanted, and not left out for that reason.
  bool applies(const std::string& stage, bool possible, const char* reason) {
    if (!wants(stage)) return false;
    if (!possible) left_out_.emplace_back(stage, reason);
    return possible;
  }

  void add(Row row) {
    if (!options_.json) print(row);
    rows_.push_back(std::move(row));
  }

  void measure_parts() {
    const int threads = rig_.threads();
    if (wants("read")) add({"read", std::nullopt, threads, measure_read(rig_)});
    const bool decode =
        applies("decode", train_.source->encoded(), "the source holds pixels, not image files");
    if (!decode && !wants("transform")) return;
    const DecodeAndTransform both = measure_decode_and_transform(rig_);
    if (decode) add({"decode", std::nullopt, threads, both.decode});
    if (wants("transform")) add({"transform", std::nullopt, threads, both.transform});
  }

  void measure_transfers() {
    constexpr const char* kReason = "training is on the CPU";
    if (applies("copy", device_.is_cuda(), kReason))
      add({"copy", std::nullopt, 1, measure_copy(rig_)});
    if (!wants("delivered")) return;
    for (const Decode decode : decodes_)
      add({"delivered", shown(decode), rig_.threads(), measure_delivered(rig_, decode)});
  }

  std::optional<Decode> shown(Decode decode) const {
    return device_.is_cuda() && train_.source->encoded() ? std::optional(decode) : std::nullopt;
  }

  std::optional<double> rate(const std::string& stage, Decode decode) const {
    for (const Row& row : rows_)
      if (row.stage == stage && row.decode.value_or(decode) == decode) return row.images_per_s();
    return std::nullopt;
  }

  // What the run would use.
  Decode chosen() const {
    const Decode wanted = experiment_.data.loader.decode;
    if (wanted != Decode::automatic) return wanted;
    if (decodes_.size() == 1 || experiment_.deterministic) return Decode::cpu;
    return faster_decode(rate("delivered", Decode::cpu).value_or(0),
                         rate("delivered", Decode::gpu).value_or(0), rate("step", Decode::cpu));
  }

  std::string verdict() const {
    const Decode decode = chosen();
    const BenchRates rates{rate("read", decode), rate("decode", decode), rate("transform", decode),
                           rate("host", decode), rate("copy", decode),   rate("delivered", decode),
                           rate("step", decode), rate("all", decode)};
    BenchSetting setting;
    setting.cuda = device_.is_cuda();
    setting.workers = rig_.threads();
    setting.cpus = cpu_limit();
    setting.encoded = train_.source->encoded();
    setting.cached = uncached_.has_value();
    setting.fp32 = experiment_.precision.mode == config::PrecisionMode::fp32;
    setting.gpu_decode = decode == Decode::gpu;
    if (!setting.gpu_decode && decodes_.size() > 1)
      setting.with_gpu_decode = rate("delivered", Decode::gpu);
    return bench_verdict(rates, setting);
  }

  void report_json() const {
    nlohmann::json json{{"device", device_.str()},
                        {"batch", experiment_.batch.global.value()},
                        {"cpus", cpu_limit()},
                        {"decode", name_of(chosen())},
                        {"verdict", verdict()}};
    json["stages"] = nlohmann::json::array();
    for (const Row& row : rows_) json["stages"].push_back(to_json(row));
    json["left_out"] = nlohmann::json::object();
    for (const auto& [what, reason] : left_out_) json["left_out"][what] = reason;
    std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  }

  const BenchOptions& options_;
  const config::Experiment& experiment_;
  at::Device device_;
  OpenedData train_;
  std::optional<OpenedData> uncached_;
  data::Sampler sampler_;
  BenchRig rig_;
  std::vector<Decode> decodes_;  // that can be used here
  std::vector<Row> rows_;
  std::vector<std::pair<std::string, std::string>> left_out_;  // what, and why
};

}  // namespace

int bench(const BenchOptions& options) {
  return with_own_failures([&options] {
    const config::Experiment& experiment = options.experiment;
    const ChosenDevice device = choose_device(experiment);
    log::info(device.line);
    memory::configure(experiment.memory);
    precision::configure(experiment.precision, device.device, experiment.deterministic);
    Bench bench(options, device.device);
    bench.run();
    bench.report();
    return 0;
  });
}

}  // namespace trainer::engine

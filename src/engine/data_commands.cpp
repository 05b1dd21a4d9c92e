#include "engine/data_commands.h"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <variant>

#include "core/cpu.h"
#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "data/sources/files.h"
#include "data/tools/contact_sheet.h"
#include "data/tools/inspect.h"
#include "data/tools/inspect_report.h"
#include "data/tools/pack.h"
#include "data/tools/split.h"
#include "data/tools/tokenize.h"
#include "engine/failures.h"
#include "engine/opened_data.h"
#include "engine/signals.h"

namespace trainer::engine {
namespace {

namespace fs = std::filesystem;

void put(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

// A line on a terminal that says how far it is; nothing elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(std::string what)
      : what_(std::move(what)), shown_(isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(std::int64_t done, std::int64_t all) {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now < last_ + std::chrono::milliseconds(100)) return;
    last_ = now;
    std::fprintf(stderr, "\r%s: %lld of %lld", what_.c_str(), static_cast<long long>(done),
                 static_cast<long long>(all));
  }
  void clear() const {
    if (shown_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  std::string what_;
  bool shown_;
  std::chrono::steady_clock::time_point last_;
};

// An experiment's sources, by their names.
const config::Source& source_of(const config::Experiment& experiment, bool val) {
  if (!val) return experiment.data.train;
  if (!experiment.data.val) throw Error(Exit::config, "the experiment has no data.val");
  return *experiment.data.val;
}

// A source without a cache, which the tools would only fill.
std::unique_ptr<data::Source> open_source(const config::Source& config,
                                          const config::Experiment& experiment) {
  return data::make_source(config, experiment.seed);
}

data::Inspection inspect_one(const std::string& name, const config::Source& config,
                             const data::Source& source, bool headers_only) {
  data::InspectOptions options;
  options.headers_only = headers_only;
  options.decode = data::decode_options(config, source.channels());
  ProgressLine line(name);
  return data::inspect(name, source, options,
                       [&line](std::int64_t done, std::int64_t all) { line.show(done, all); });
}

data::InspectReport make_report(const InspectOptions& options) {
  const config::Experiment& experiment = options.experiment;
  data::InspectReport report;
  std::unique_ptr<data::Source> train;
  std::unique_ptr<data::Source> val;
  if (options.train) train = open_source(experiment.data.train, experiment);
  if (options.val && experiment.data.val) val = open_source(*experiment.data.val, experiment);
  if (train) {
    report.sets.push_back(
        inspect_one("train", experiment.data.train, *train, options.headers_only));
  }
  if (val)
    report.sets.push_back(inspect_one("val", *experiment.data.val, *val, options.headers_only));
  if (!train || !val) return report;
  report.in_both = data::in_both({*train, report.sets[0]}, {*val, report.sets[1]});
  try {
    require_same_classes(*train, *val);
  } catch (const Error& mismatch) {
    report.mismatches.emplace_back(mismatch.what());
  }
  return report;
}

void write_sheet(const config::Experiment& experiment, const fs::path& path) {
  const config::Loader& config = experiment.data.loader;
  const OpenedData train =
      open_data(experiment.data.train, config, experiment.seed, /*augment=*/true);
  const data::Sampler sampler(train.source->size(), experiment.batch.global.value(),
                              config.drop_last, /*shuffle=*/true, experiment.seed);
  data::LoaderOptions options = train.loader_options(config, /*cuda=*/false);
  options.workers = cpu_limit();
  options.last_step = 1;
  data::Loader loader(*train.source, *train.pipeline, sampler, options);
  const data::HostBatch* batch = loader.next();
  data::write_png(data::make_contact_sheet(loader, *batch, train.source->class_names()), path);
}

int inspect_checked(const InspectOptions& options) {
  if (!options.train) source_of(options.experiment, /*val=*/true);
  const data::InspectReport report = make_report(options);
  if (options.json) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    put(data::to_json(report).dump(2, ' ', /*ensure_ascii=*/false, replace) + "\n");
  } else {
    put(data::to_text(report));
  }
  std::fflush(stdout);
  if (options.sheet) {
    write_sheet(options.experiment, *options.sheet);
    log::info("contact sheet: " + data::printable(*options.sheet));
  }
  return static_cast<int>(report.problems().empty() ? Exit::done : Exit::data);
}

// To be called now and then by what can be given up.
void throw_if_stopped() {
  const int signal = stop_signal().load();
  if (signal == 0) return;
  throw Error(signal == SIGINT ? Exit::interrupted : Exit::terminated,
              "stopped by a signal; nothing was written");
}

// "3 shards, 2.4 GiB".
std::string describe_shards(const fs::path& folder) {
  std::int64_t shards = 0;
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".tar") continue;
    ++shards;
    bytes += entry.file_size();
  }
  return std::to_string(shards) + (shards == 1 ? " shard, " : " shards, ") +
         human_bytes(static_cast<double>(bytes));
}

int pack_checked(const PackDataOptions& options) {
  const config::Experiment& experiment = options.experiment;
  const auto source = open_source(source_of(experiment, options.val), experiment);
  install_signal_handlers();
  {
    ProgressLine line("packing");
    data::pack(*source, {options.output, options.shard_bytes, options.overwrite},
               [&line](std::int64_t done, std::int64_t all) {
                 line.show(done, all);
                 throw_if_stopped();
               });
  }
  const std::string set = options.val ? "data.val" : "data.train";
  const fs::path folder = fs::absolute(options.output).lexically_normal();
  const bool grey = !source->encoded() && source->channels() == 1;
  put(data::printable(folder) + ": " + std::to_string(source->size()) + " samples in " +
      describe_shards(folder) + "\nTo train on them, give " + set +
      " this kind and path in the experiment file, and keep its transforms:\n  {kind: tar_shards, "
      "path: " +
      data::printable(folder) + (grey ? ", channels: 1" : "") + "}\n");
  return static_cast<int>(Exit::done);
}

int split_checked(const SplitDataOptions& options) {
  const config::Experiment& experiment = options.experiment;
  const auto source = open_source(experiment.data.train, experiment);
  install_signal_handlers();
  const data::SplitCounts counts = data::split(
      *source, {options.share, options.seed.value_or(experiment.seed), options.train, options.val});
  const auto line = [](const fs::path& path, std::int64_t samples) {
    return data::printable(path) + ": " + std::to_string(samples) + " samples\n";
  };
  const auto source_line = [](const char* key, const fs::path& path) {
    return std::string("  ") + key +
           ": {kind: manifest, path: " + data::printable(fs::absolute(path).lexically_normal()) +
           "}\n";
  };
  put(line(options.train, counts.train) + line(options.val, counts.val) +
      "To use them, give the sources these kinds and paths under data: in the experiment file, and "
      "keep their transforms:\n" +
      source_line("train", options.train) + source_line("val", options.val));
  return static_cast<int>(Exit::done);
}

std::string describe_tokens(const data::TokenizeProgress& done) {
  return std::to_string(done.tokens) + " tokens of " +
         human_bytes(static_cast<double>(done.all_bytes)) + " of text in " +
         std::to_string(done.shards) + (done.shards == 1 ? " shard" : " shards");
}

int tokenize_checked(const TokenizeDataOptions& options) {
  install_signal_handlers();
  data::TokenizeOptions own;
  own.input = options.input;
  own.output = options.output;
  own.workers = options.workers > 0 ? options.workers : cpu_limit();
  own.shard_tokens = options.shard_tokens;
  ProgressLine line("tokenizing, bytes");
  const data::TokenizeProgress done =
      data::tokenize(own, [&line](const data::TokenizeProgress& progress) {
        line.show(static_cast<std::int64_t>(progress.bytes),
                  static_cast<std::int64_t>(progress.all_bytes));
        const int signal = stop_signal().load();
        if (signal == 0) return;
        throw Error(signal == SIGINT ? Exit::interrupted : Exit::terminated,
                    "stopped by a signal; the same command goes on after the last whole shard");
      });
  line.clear();
  const fs::path folder = fs::absolute(options.output).lexically_normal();
  put(data::printable(folder) + ": " + describe_tokens(done) +
      "\nTo train on them, give data.train this kind and path in the experiment file:\n"
      "  {kind: tokens, path: " +
      data::printable(folder) + "}\n");
  return static_cast<int>(Exit::done);
}

}  // namespace

int inspect_data(const InspectOptions& options) {
  return with_own_failures([&options] { return inspect_checked(options); });
}

int pack_data(const PackDataOptions& options) {
  return with_own_failures([&options] { return pack_checked(options); });
}

int split_data(const SplitDataOptions& options) {
  return with_own_failures([&options] { return split_checked(options); });
}

int tokenize_data(const TokenizeDataOptions& options) {
  return with_own_failures([&options] { return tokenize_checked(options); });
}

}  // namespace trainer::engine

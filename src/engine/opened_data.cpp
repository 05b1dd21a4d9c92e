#include "engine/opened_data.h"

#include <algorithm>
#include <variant>

#include "core/cpu.h"
#include "core/error.h"
#include "data/sources/cache.h"

namespace trainer::engine {
namespace {

const config::SourceCommon& common(const config::Source& config) {
  if (const config::SourceCommon* images = config::images_of(config)) return *images;
  throw Error(Exit::config, "the source gives text; this command works on images alone");
}

// Pixels of a file for a cache that holds decoded samples. It declines a file that may be decoded
// reduced, since the whole picture would give other pixels, and a bad one, which is to fail where
// its name is known.
data::DecodeWhole decode_for_cache(const data::Pipeline& pipeline,
                                   const data::DecodeOptions& options) {
  return [&pipeline, options](data::Bytes bytes, data::Image& image) {
    try {
      data::Decoder decoder(options);
      const data::ImageInfo info = decoder.open(bytes);
      if (pipeline.may_reduce(info.height, info.width)) return false;
      decoder.read({0, 0, info.height, info.width}, 1, image);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
}

}  // namespace

data::LoaderOptions OpenedData::loader_options(const config::Loader& config, bool cuda) const {
  data::LoaderOptions options;
  options.workers = worker_count(config.workers, cuda);
  options.prefetch = static_cast<int>(config.prefetch);
  options.samples = samples;
  options.on_bad_sample = config.on_bad_sample;
  if (cuda) options.allocate = data::host_allocator(/*pinned=*/true);
  return options;
}

namespace {

void require_weights(const data::Source& source) {
  if (!source.weighted()) return;
  for (std::int64_t index = 0; index < source.size(); ++index)
    if (source.weight(index) > 0) return;
  throw Error(Exit::data, source.describe() + ": the weight of every sample is 0");
}

}  // namespace

OpenedData open_data(const config::Source& config, const config::Loader& loader, std::uint64_t seed,
                     bool augment, int caches) {
  OpenedData opened;
  opened.source = data::make_source(config, seed);
  require_weights(*opened.source);
  const std::int64_t channels = common(config).channels.value_or(opened.source->channels());
  opened.pipeline =
      std::make_unique<data::Pipeline>(common(config).transforms, static_cast<int>(channels));
  opened.samples.decode = data::decode_options(config, static_cast<int>(channels));
  opened.samples.seed = seed;
  opened.samples.augment = augment;
  if (const auto* cache = std::get_if<config::RamCache>(&loader.cache)) {
    data::DecodeWhole decode;
    if (cache->holds == config::CacheHolds::decoded && opened.source->encoded())
      decode = decode_for_cache(*opened.pipeline, opened.samples.decode);
    opened.source = data::cached(std::move(opened.source), *cache, caches, std::move(decode));
  }
  return opened;
}

void require_same_classes(const data::Source& train, const data::Source& val) {
  const auto& a = train.class_names();
  const auto& b = val.class_names();
  if (a == b && train.classes() == val.classes()) return;
  std::string detail;
  for (const std::string& name : a)
    if (std::find(b.begin(), b.end(), name) == b.end()) detail += "; only in data.train: " + name;
  for (const std::string& name : b)
    if (std::find(a.begin(), a.end(), name) == a.end()) detail += "; only in data.val: " + name;
  throw Error(Exit::data, "data.train has " + std::to_string(train.classes()) +
                              " classes and data.val " + std::to_string(val.classes()) +
                              "; they must be the same" + detail);
}

int worker_count(const config::Auto<std::int64_t>& workers, bool cuda) {
  if (workers) return static_cast<int>(*workers);
  // On a CPU the training itself wants the cores. Beside a GPU the training thread needs one only
  // while it does not wait for data.
  const int cpus = cpu_limit();
  return cuda ? std::min(cpus, 32) : std::max(1, cpus / 4);
}

}  // namespace trainer::engine

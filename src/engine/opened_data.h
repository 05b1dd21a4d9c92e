// data.train or data.val, opened: its source, its transforms, and how its samples are made.
#pragma once

#include <cstdint>
#include <memory>

#include "config/experiment.h"
#include "data/dataset.h"
#include "data/images/transforms.h"
#include "data/loader.h"

namespace trainer::engine {

struct OpenedData {
  std::unique_ptr<data::Source> source;
  std::unique_ptr<data::Pipeline> pipeline;
  data::SampleOptions samples;

  // Options of a loader for it: threads, memory and policy as the experiment says, on `device`.
  data::LoaderOptions loader_options(const config::Loader& config, bool cuda) const;
};

// Throws Error(data, config) naming the path or the setting. `caches` is how many the run makes:
// they share the memory where a cache's size is left to us.
OpenedData open_data(const config::Source& config, const config::Loader& loader, std::uint64_t seed,
                     bool augment, int caches = 1);

// Throws Error(data) naming the classes that only one of the two has.
void require_same_classes(const data::Source& train, const data::Source& val);

// Threads of the loader.
int worker_count(const config::Auto<std::int64_t>& workers, bool cuda);

}  // namespace trainer::engine

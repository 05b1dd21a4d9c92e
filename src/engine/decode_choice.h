// Where JPEG files are decoded: on the CPU, or by the GPU's own decoder.
#pragma once

#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "config/experiment.h"
#include "data/feed.h"
#include "data/sampler.h"
#include "engine/opened_data.h"

namespace trainer::engine {

struct DecodeChoice {
  config::Decode decode = config::Decode::cpu;  // cpu or gpu
  std::string line;  // why, for the log; empty where nothing was to choose
};

// `resumed` is what the run had chosen before, which `auto` keeps. `auto` measures both for about a
// second each where both can be used. Throws Error(config) or Error(device) where the GPU is asked
// for and cannot do it.
DecodeChoice choose_decode(const config::Experiment& experiment, const OpenedData& train,
                           const data::Sampler& sampler, const data::FeedOptions& feed,
                           std::optional<config::Decode> resumed);

// Why the GPU cannot decode the samples of `data` with what this build and machine have; empty
// where it can.
std::string why_no_gpu_decoding(const OpenedData& data, const config::Loader& loader,
                                const data::Sampler& sampler, at::Device device);

const char* name_of(config::Decode decode);

}  // namespace trainer::engine

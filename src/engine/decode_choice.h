// Where JPEG files are decoded: on the CPU, or by the GPU's own decoder.
#pragma once

#include <c10/core/Device.h>

#include <functional>
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

// Seconds of a training step on that batch, without a trace of it.
using TimeStep = std::function<double(const data::StepBatch&)>;

// `resumed` is what the run had chosen before, which `auto` keeps. Where both can be used, `auto`
// measures for about a second each how many images they bring, and where the CPU brings fewer, the
// training step too: the CPU is chosen where it clearly keeps up with the step, since decoding on
// the GPU takes time from training there. Throws Error(config) or Error(device) where the GPU is
// asked for and cannot do it.
DecodeChoice choose_decode(const config::Experiment& experiment, const OpenedData& train,
                           const data::Sampler& sampler, const data::FeedOptions& feed,
                           std::optional<config::Decode> resumed, const TimeStep& time_step);

// What `auto` chooses by images per second: of decoding on the CPU and on the GPU, and of the
// training step where it is known.
config::Decode faster_decode(double cpu, double gpu, std::optional<double> step);

// Why the samples of `data` are none for the GPU's decoder, whatever the machine; empty where they
// are.
std::string why_not_for_gpu(const OpenedData& data, const config::Loader& loader);

// Why the GPU cannot decode the samples of `data` with what this build and machine have; empty
// where it can.
std::string why_no_gpu_decoding(const OpenedData& data, const config::Loader& loader,
                                const data::Sampler& sampler, at::Device device);

const char* name_of(config::Decode decode);

}  // namespace trainer::engine

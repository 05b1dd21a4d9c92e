// How much arithmetic a training step is, and how much a GPU can do: for mfu, the share of it that
// a run uses.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "config/experiment.h"
#include "models/model.h"

namespace trainer::engine {

// Of one sequence of `tokens` tokens through a language model, forward and backward, without
// recomputation: 6 for each weight that multiplies and token, and 12 for each layer, width and pair
// of tokens, as if attention were not causal (Chowdhery et al. 2022, "PaLM", appendix B). 0 for
// other models.
double training_flops(const models::Model& model, const config::Model& config, std::int64_t tokens);

// log.peak_tflops, or what the maker states for dense products of precision.mode on this GPU; 0
// where it is not known.
double peak_flops(const config::Experiment& experiment, at::Device device);

}  // namespace trainer::engine

// A model as the experiment wants it before training: where it comes from, what it starts from, and
// which of its parameters learn.
#pragma once

#include <cstdint>
#include <vector>

#include "config/experiment.h"
#include "models/model.h"

namespace trainer::engine {

// The experiment with the model of a Hugging Face folder in place of `kind: hf`, its weights named.
// Throws Error(config, storage) where the folder is none that can be trained.
config::Experiment with_known_model(config::Experiment experiment);

// Throws Error(config) where the model does not take what the data gives: text or images, or
// sequences that are too long.
void require_suitable(const models::Model& model, const config::Experiment& experiment);

// model.weights, where they are named: of a file, a checkpoint, or a Hugging Face folder.
void load_start_weights(const config::Model& config, models::Model& model);

// model.freeze and model.lora: afterwards the parameters that learn are those with requires_grad.
// Throws Error(config) where a glob matches nothing, or nothing is left to learn.
void choose_trained(const config::Model& config, std::uint64_t seed, models::Model& model);

// Of images and convolutions, by model.memory_format.
at::MemoryFormat memory_format(const config::Experiment& experiment, at::Device device);

// Of images: in what autocast would cast the first layer's input to, which is half of the bytes and
// one pass less.
at::ScalarType input_type(const config::Experiment& experiment, at::Device device);

// Parameters and buffers.
std::vector<at::Tensor> resident_tensors(const models::Model& model);

}  // namespace trainer::engine

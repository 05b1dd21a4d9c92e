// A checkpoint opened for use: its experiment, and its model without a training around it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "core/tensors.h"
#include "data/feed.h"
#include "engine/use.h"
#include "models/model.h"

namespace trainer::engine {

struct SavedRun {
  std::filesystem::path path;  // of the checkpoint
  std::int64_t step = 0;
  config::Experiment experiment;  // as stored, with the overrides
  nlohmann::json use;             // see Session::use
  std::string decode;             // where the run decoded its images: "cpu" or "gpu"
  bool averaged = false;          // the weights are the averages
  State weights;                  // of the model

  bool is_language_model() const;
  // Empty where the classes have none, and for text.
  std::vector<std::string> class_names() const;
  // Of the `characters` tokenizer, else empty.
  std::string alphabet() const;
  // Classes, or tokens of the vocabulary.
  std::int64_t outputs() const;
};

// Throws Error(storage) where there is no such checkpoint, it is damaged, or it does not say what
// it is of, and Error(config) where an override is wrong.
SavedRun open_saved_run(const UsedCheckpoint& wanted);

// The transforms with what is random replaced: a crop by that of the middle, a resized crop by a
// resize and that; the rest of it is left out.
std::vector<config::Transform> without_augmentation(const std::vector<config::Transform>& list);

// Channels of the images of `source`.
std::int64_t channels_of(const config::Source& source);

// What data.train gives the model; {} for text. Opens the data only where neither its kind nor its
// transforms say it.
models::InputShape input_of(const config::Experiment& experiment);

// Says on what in the log, and sets the process up for it.
at::Device start_using(const config::Experiment& experiment);

// The run's model with its weights (adapters beside them) on `device`, in evaluation mode.
std::unique_ptr<models::Model> make_model(const SavedRun& run, at::Device device);

// As in the run's own evaluations.
data::FeedOptions feed_options(const SavedRun& run, at::Device device);

// Throws Error(config) where the model of `run` does not take images of `shape`, which `what`
// gives.
void require_input(const SavedRun& run, const models::InputShape& shape, const std::string& what);

}  // namespace trainer::engine

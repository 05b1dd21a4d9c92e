// Using what a run made: `trainer eval`, `trainer predict`, and the weights of a checkpoint. The
// header needs no torch (see engine/train.h). All return the exit code and throw Error.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trainer::engine {

// What to use.
struct UsedCheckpoint {
  // A checkpoint's folder; or a run's, whose best checkpoint is used where it has one, else its
  // newest.
  std::filesystem::path path;
  std::vector<std::string> overrides;  // of the stored experiment, as `--set` takes them
  bool averages = true;                // the averaged weights (optim.ema), where the run has them
};

struct EvalOptions {
  UsedCheckpoint checkpoint;
  bool train = false;  // data.train, without its augmentation, instead of data.val
  bool json = false;   // one JSON object instead of a line a metric
};
int evaluate(const EvalOptions& options);

struct PredictImagesOptions {
  UsedCheckpoint checkpoint;
  // Image files, and folders of them (and folders of those).
  std::vector<std::filesystem::path> inputs;
  std::optional<std::filesystem::path> output;  // absent: standard output
  std::int64_t top = 0;                         // so many most likely classes; 0: a column for each
};
// Writes CSV, a line a picture, in the order of their paths. Pictures that cannot be used are named
// in the log and left out, and the exit code is 4 then.
int predict_images(const PredictImagesOptions& options);

struct PredictTextOptions {
  UsedCheckpoint checkpoint;
  std::string prompt;
  std::int64_t max_tokens = 200;
  double temperature = 1;  // 0: always the likeliest token
  std::int64_t top_k = 0;  // among so many likeliest tokens; 0: among all
  double top_p = 1;        // among the likeliest tokens that together have this probability
  std::uint64_t seed = 1;
  std::int64_t samples = 1;
};
// Writes the prompt and what follows it to standard output, as it is made.
int predict_text(const PredictTextOptions& options);

inline constexpr const char* kEvaluateSymbol = "trainer_engine_evaluate";
using EvaluateFunction = int (*)(const EvalOptions&);
inline constexpr const char* kPredictImagesSymbol = "trainer_engine_predict_images";
using PredictImagesFunction = int (*)(const PredictImagesOptions&);
inline constexpr const char* kPredictTextSymbol = "trainer_engine_predict_text";
using PredictTextFunction = int (*)(const PredictTextOptions&);

}  // namespace trainer::engine

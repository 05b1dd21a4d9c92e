// `trainer predict --prompt`.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/error.h"
#include "engine/failures.h"
#include "engine/generate.h"
#include "engine/use.h"
#include "engine/use_checkpoint.h"

namespace trainer::engine {
namespace {

// Each piece is seen when it is made.
void put(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw Error(Exit::storage,
                std::string("standard output cannot be written: ") + std::strerror(errno));
  }
}

int predict_checked(const PredictTextOptions& options) {
  const SavedRun run = open_saved_run(options.checkpoint);
  if (!run.is_language_model()) {
    throw Error(Exit::usage,
                "the checkpoint is of a model of images, which writes no text: give it images with "
                "--input instead of --prompt");
  }
  const at::Device device = start_using(run.experiment);
  const auto tokenizer = tokenizer_of(run.experiment, run.alphabet());
  const auto model = make_model(run, device);
  TextGenerator generator(*model, *tokenizer, run.outputs(), run.experiment.precision, device);
  TextRequest request;
  request.prompt = options.prompt;
  request.max_tokens = options.max_tokens;
  request.sampling = {options.temperature, options.top_k, options.top_p};
  request.seed = options.seed;
  for (std::int64_t sample = 0; sample < options.samples; ++sample) {
    request.sample = static_cast<std::uint64_t>(sample);
    if (options.samples > 1) {
      put("--- " + std::to_string(sample + 1) + " of " + std::to_string(options.samples) +
          " ---\n");
    }
    bool begun = false;
    generator.generate(request, [&](std::string_view text) {
      if (!begun) put(options.prompt);
      begun = true;
      put(text);
    });
    put("\n");
  }
  return static_cast<int>(Exit::done);
}

}  // namespace

int predict_text(const PredictTextOptions& options) {
  return with_own_failures([&options] { return predict_checked(options); });
}

}  // namespace trainer::engine

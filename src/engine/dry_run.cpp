#include "engine/dry_run.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "engine/step_results.h"
#include "memory/memory.h"

namespace trainer::engine {

int dry_run(const config::Experiment& experiment, Session& session) {
  for (const std::string& line : session.describe()) std::printf("%s\n", line.c_str());
  // The first step pays for the libraries' set-up, so the second one's time is the one to show.
  constexpr std::int64_t kSteps = 2;
  session.start(0, kSteps);
  StepResults results(session.device());
  FinishedStep finished;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const data::StepBatch* batch = session.next_batch();
    if (batch == nullptr) throw Error(Exit::internal, "the loader gave no batch");
    if (step == 0) {
      const Batch micro = batch->micro(0, std::min(experiment.batch.micro.value(), batch->size()));
      std::string shape;
      for (const std::int64_t size : micro.input.sizes())
        shape += (shape.empty() ? "" : " x ") + std::to_string(size);
      std::printf("input: %s %s on %s\n", shape.c_str(), c10::toString(micro.input.scalar_type()),
                  session.device().str().c_str());
    }
    results.push(step + 1, session.trainer().step(*batch, experiment.batch.micro.value()));
    finished = *results.pop(/*wait=*/true);
    std::printf("step %s: loss %.6g, gradient norm %.6g\n", std::to_string(step + 1).c_str(),
                static_cast<double>(finished.values.loss),
                static_cast<double>(finished.values.grad_norm));
    if (finished.values.halted != 0)
      throw Error(Exit::not_finite, "the loss or the gradient of the first step is not finite");
  }
  const double step_seconds = finished.milliseconds / 1000.0;
  const std::int64_t tokens = session.tokens_per_sample();
  const double samples = static_cast<double>(experiment.batch.global.value()) / step_seconds;
  std::printf("step time: %.1f ms, %.0f %s/s (one step, not a measurement)\n",
              finished.milliseconds, tokens > 0 ? samples * static_cast<double>(tokens) : samples,
              tokens > 0 ? "tokens" : "samples");
  if (session.plan().total_steps > 0) {
    std::printf(
        "whole run: about %s of training\n",
        human_seconds(step_seconds * static_cast<double>(session.plan().total_steps)).c_str());
  }
  if (session.device().is_cuda()) {
    const memory::Statistics memory = memory::statistics(session.device().index());
    std::printf("device memory: %s at the peak, %s reserved\n",
                human_bytes(static_cast<double>(memory.peak)).c_str(),
                human_bytes(static_cast<double>(memory.reserved)).c_str());
  }
  std::printf("dry run: nothing was written\n");
  return 0;
}

}  // namespace trainer::engine

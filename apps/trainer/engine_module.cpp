// What libtrainer_engine.so exports.
#include "engine/train.h"

extern "C" __attribute__((visibility("default"))) int trainer_engine_train(
    const trainer::engine::TrainOptions& options) {
  return trainer::engine::train(options);
}

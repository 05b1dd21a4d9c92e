// What libtrainer_engine.so exports.
#include "engine/bench.h"
#include "engine/data_commands.h"
#include "engine/train.h"

#define TRAINER_EXPORT extern "C" __attribute__((visibility("default")))

TRAINER_EXPORT int trainer_engine_train(const trainer::engine::TrainOptions& options) {
  return trainer::engine::train(options);
}
TRAINER_EXPORT int trainer_engine_inspect(const trainer::engine::InspectOptions& options) {
  return trainer::engine::inspect_data(options);
}
TRAINER_EXPORT int trainer_engine_pack(const trainer::engine::PackDataOptions& options) {
  return trainer::engine::pack_data(options);
}
TRAINER_EXPORT int trainer_engine_split(const trainer::engine::SplitDataOptions& options) {
  return trainer::engine::split_data(options);
}
TRAINER_EXPORT int trainer_engine_bench(const trainer::engine::BenchOptions& options) {
  return trainer::engine::bench(options);
}

// What libtrainer_engine.so exports.
#include "engine/bench.h"
#include "engine/data_commands.h"
#include "engine/export.h"
#include "engine/train.h"
#include "engine/use.h"

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
TRAINER_EXPORT int trainer_engine_tokenize(const trainer::engine::TokenizeDataOptions& options) {
  return trainer::engine::tokenize_data(options);
}
TRAINER_EXPORT int trainer_engine_evaluate(const trainer::engine::EvalOptions& options) {
  return trainer::engine::evaluate(options);
}
TRAINER_EXPORT int trainer_engine_predict_images(
    const trainer::engine::PredictImagesOptions& options) {
  return trainer::engine::predict_images(options);
}
TRAINER_EXPORT int trainer_engine_predict_text(const trainer::engine::PredictTextOptions& options) {
  return trainer::engine::predict_text(options);
}
TRAINER_EXPORT int trainer_engine_export(const trainer::engine::ExportOptions& options) {
  return trainer::engine::export_model(options);
}

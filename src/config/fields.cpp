#include "config/fields.h"

namespace trainer::config {
namespace {

const std::vector<std::string> kMetrics{"val/loss", "val/accuracy", "val/accuracy_top5",
                                        "val/perplexity"};

Of<Length> cadence() { return length(Zero::refused, Times::allowed); }
Of<Mode> mode() { return choice<Mode>({{"min", Mode::min}, {"max", Mode::max}}); }

Of<Batch> batch() {
  const Of<Auto<std::int64_t>> count = automatic(integer(1, 1'000'000'000));
  return Fields<Batch>()
      .field("global", &Batch::global, count,
             "Samples of one update, over all micro-batches and ranks.")
      .field("micro", &Batch::micro, count,
             "Samples that go through the model at once. auto: global over accumulate.")
      .field("accumulate", &Batch::accumulate, count,
             "Micro-batches of one update. auto: global over micro, rounded up.")
      .field("evaluate", &Batch::evaluate, count, "Samples at once in evaluation. auto: micro.")
      .type();
}

Of<Precision> precision() {
  return Fields<Precision>()
      .field("mode", &Precision::mode,
             choice<PrecisionMode>({{"fp32", PrecisionMode::fp32},
                                    {"bf16", PrecisionMode::bf16},
                                    {"fp16", PrecisionMode::fp16}}),
             "Type of the arithmetic; weights stay fp32. fp16 scales the loss and needs a GPU.")
      .field("tf32", &Precision::tf32, boolean(),
             "Faster fp32 matrix products on tensor cores, with 10 bits of mantissa.")
      .field("initial_scale", &Precision::initial_scale, number(between(1, 16777216)),
             "fp16 only: loss scale at the start.")
      .field("growth_interval", &Precision::growth_interval, integer(1, 1'000'000'000),
             "fp16 only: updates without an overflow before the scale doubles.")
      .type();
}

Of<Train> train() {
  const auto stop_early =
      Fields<StopEarly>()
          .field("metric", &StopEarly::metric, word(kMetrics), "What is watched.")
          .field("mode", &StopEarly::mode, mode(), "Whether lower (min) or higher (max) is better.")
          .field("patience", &StopEarly::patience, integer(1, 1'000'000),
                 "Evaluations without an improvement before the run ends.")
          .field("min_delta", &StopEarly::min_delta, number(between(0, 1e9)),
                 "Smallest change that counts as an improvement.");
  return Fields<Train>()
      .field("length", &Train::length, cadence(), "How long to train.")
      .field("evaluate_every", &Train::evaluate_every, maybe(cadence()),
             "Distance between evaluations on data.val; null: only at the end.")
      .field("stop_early", &Train::stop_early, maybe(stop_early.type()),
             "End the run when a metric no longer improves.")
      .field("on_nonfinite", &Train::on_nonfinite,
             choice<OnNonfinite>({{"stop", OnNonfinite::stop}, {"skip", OnNonfinite::skip}}),
             "What an infinite or undefined loss does: stop the run, or skip the update.")
      .type();
}

Of<ActivationCheckpointing> activation_checkpointing() {
  const auto every = Fields<RecomputeBlocks>()
                         .field("blocks", &RecomputeBlocks::every, integer(2, 1000),
                                "Blocks of a group that is computed again as a whole.")
                         .short_for("blocks");
  const auto offload = Fields<OffloadActivations>().field(
      "min_size", &OffloadActivations::min_size, byte_size(), "Smaller tensors stay on the GPU.");
  return NamedKinds<ActivationCheckpointing>("activation checkpointing")
      .kind("none", Fields<KeepActivations>(), "Everything is kept.")
      .kind("blocks", Fields<RecomputeBlocks>(),
            "Each block is computed again in the backward pass.", &RecomputeBlocks::every,
            std::int64_t{1})
      .kind("every", every, "Groups of k blocks are computed again: {every: 2}.")
      .kind("selective", Fields<RecomputeSelective>(),
            "As blocks, but attention is kept and not computed again.")
      .kind("offload", offload, "Saved tensors wait in the host's memory.")
      .type();
}

Of<Memory> memory() {
  return Fields<Memory>()
      .field("activation_checkpointing", &Memory::activation_checkpointing,
             activation_checkpointing(),
             "What the backward pass needs: kept, computed again, or moved to the host.")
      .field("allocator", &Memory::allocator,
             choice<Allocator>(
                 {{"standard", Allocator::standard}, {"expandable", Allocator::expandable}}),
             "CUDA's caching allocator. expandable: segments grow, which leaves fewer holes.")
      .type();
}

Of<Checkpoint> checkpoint() {
  const auto best =
      Fields<Best>()
          .field("metric", &Best::metric, word(kMetrics), "What decides.")
          .field("mode", &Best::mode, mode(), "Whether lower (min) or higher (max) is better.");
  return Fields<Checkpoint>()
      .field("every", &Checkpoint::every, maybe(cadence()),
             "Distance between checkpoints; null: only at the end and on signals.")
      .field("keep", &Checkpoint::keep, integer(1, 1'000'000),
             "Newest checkpoints that are kept; older ones are deleted.")
      .field("best", &Checkpoint::best, maybe(best.type()),
             "Keep the checkpoint with the best metric as well.")
      .type();
}

Of<Log> log() {
  const auto samples =
      Fields<SampleText>()
          .field("prompt", &SampleText::prompt, any_text(10'000), "What the text goes on from.")
          .field("tokens", &SampleText::tokens, integer(1, 1'000'000), "Length of the text.")
          .field("temperature", &SampleText::temperature, number(between(0, 100)),
                 "0: always the likeliest token.");
  return Fields<Log>()
      .field("every", &Log::every, cadence(), "Distance between records.")
      .field("console", &Log::console,
             choice<Console>({{"auto", Console::automatic},
                              {"progress", Console::progress},
                              {"lines", Console::lines},
                              {"quiet", Console::quiet}}),
             "auto: a progress line on a terminal, else lines.")
      .field("jsonl", &Log::jsonl, boolean(), "Write metrics.jsonl.")
      .field("csv", &Log::csv, boolean(), "Write metrics.csv.")
      .field("tensorboard", &Log::tensorboard, boolean(), "Write TensorBoard's event file.")
      .field("peak_tflops", &Log::peak_tflops, automatic(number(above(0, 1e6))),
             "What mfu is a share of, in TFLOP/s. auto: by the GPU's name and precision.mode.")
      .field("samples", &Log::samples, maybe(samples.type()),
             "Print text that the language model writes after each evaluation.")
      .type();
}

std::shared_ptr<const Structure> experiment() {
  return Fields<Experiment>()
      .field("name", &Experiment::name, folder_name(),
             "Name of the run; its results go to runs/NAME.")
      .field("seed", &Experiment::seed, seed_number(),
             "Fixes initial weights, sample order and augmentation.")
      .field("deterministic", &Experiment::deterministic, boolean(),
             "Only kernels that give the same bits each time; slower.")
      .field("device", &Experiment::device, device_name(),
             "Where to train. auto: the first GPU, else the CPU.")
      .field("require_gpu", &Experiment::require_gpu, boolean(),
             "Fail rather than train on the CPU.")
      .required("model", &Experiment::model, model_type(), "What is trained.")
      .required("data", &Experiment::data, data_type(), "What it learns from.")
      .field("batch", &Experiment::batch, batch(),
             "How many samples an update takes; any two of global, micro and accumulate give the "
             "third. None given: global 64.")
      .field("precision", &Experiment::precision, precision(), "Number formats.")
      .field("objective", &Experiment::objective, objective_type(), "The loss.")
      .required("optim", &Experiment::optim, optim_type(), "The optimiser.")
      .field("schedule", &Experiment::schedule, schedule_type(),
             "The learning rate over the run, as a factor of optim.lr.")
      .field("train", &Experiment::train, train(), "How long, and when to evaluate.")
      .field("memory", &Experiment::memory, memory(), "GPU memory.")
      .field("checkpoint", &Experiment::checkpoint, checkpoint(), "What is saved, and when.")
      .field("log", &Experiment::log, log(), "What is recorded.")
      .structure();
}

}  // namespace

const Structure& experiment_type() {
  static const std::shared_ptr<const Structure> type = experiment();
  return *type;
}

}  // namespace trainer::config

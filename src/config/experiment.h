// The experiment: every setting of a run as typed, checked values. Plain data; what a field means,
// its default, bounds and spelling in YAML are declared once, in fields.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace trainer::config {

// An amount of training: `500 steps`, `2 epochs`, `1M samples`, `300M tokens`, `10min`.
struct Length {
  enum class Unit { steps, epochs, samples, tokens, seconds };
  double value = 0;
  Unit unit = Unit::steps;
  bool operator==(const Length&) const = default;
};

// nullopt is `auto`.
template <class T>
using Auto = std::optional<T>;
// nullopt is `null`: switched off.
template <class T>
using Maybe = std::optional<T>;

enum class DeviceKind { automatic, cpu, cuda };
struct Device {
  DeviceKind kind = DeviceKind::automatic;
  int index = 0;  // of a CUDA device
  bool operator==(const Device&) const = default;
};

// --- model ---------------------------------------------------------------------------------------
enum class MemoryFormat { automatic, contiguous, channels_last };
enum class Activation { relu, gelu, tanh };
enum class Stem { imagenet, cifar };

// A path alone is short for {path: ...}.
struct Weights {
  std::string path;               // .safetensors file or checkpoint folder
  bool strict = true;             // every key of the model present, and no other
  std::vector<std::string> skip;  // globs of the model's keys that are left as initialised
  bool operator==(const Weights&) const = default;
};

struct Lora {
  std::int64_t rank = 8;
  double alpha = 16;
  double dropout = 0;
  // Globs of linear layers; auto: c_attn of gpt2, q_proj and v_proj of llama, qkv of vit.
  Auto<std::vector<std::string>> targets;
  bool operator==(const Lora&) const = default;
};

struct ModelCommon {
  Auto<std::int64_t> classes;  // auto: as many as the training data has
  Maybe<Weights> weights;
  std::vector<std::string> freeze;  // globs of parameters
  Maybe<Lora> lora;
  MemoryFormat memory_format = MemoryFormat::automatic;
  bool operator==(const ModelCommon&) const = default;
};
struct Mlp : ModelCommon {
  std::vector<std::int64_t> hidden{256, 128};
  Activation activation = Activation::relu;
  double dropout = 0;
  bool operator==(const Mlp&) const = default;
};
struct LeNet : ModelCommon {
  bool operator==(const LeNet&) const = default;
};
struct ResNet : ModelCommon {
  int depth = 18;              // from the kind: resnet18 | resnet34 | resnet50 | resnet101
  Stem stem = Stem::imagenet;  // cifar: a 3x3 first convolution of stride 1 and no max-pool
  bool zero_init_residual = false;
  bool operator==(const ResNet&) const = default;
};

// Language models know no classes: `vocabulary` takes their place.
struct LanguageModel : ModelCommon {
  std::int64_t layers = 12, heads = 12, width = 768;
  std::int64_t context = 1024;    // the longest sequence, in tokens
  Auto<std::int64_t> vocabulary;  // auto: the tokenizer's
  bool tied = true;               // the head's weight is the token embedding
  double dropout = 0;
  bool operator==(const LanguageModel&) const = default;
};
struct Gpt2 : LanguageModel {
  Auto<std::int64_t> intermediate;  // of the MLP; auto: 4 * width
  double norm_eps = 1e-5;
  bool operator==(const Gpt2&) const = default;
};
// How a rotary embedding is stretched to longer sequences than it was trained on, by the names of
// Hugging Face's rope_type.
struct RopeScaling {
  enum class Kind { none, linear, dynamic, llama3, yarn };
  Kind kind = Kind::none;
  double factor = 1;
  std::int64_t original_context = 0;  // dynamic, llama3, yarn: what it was trained on
  double low_freq_factor = 1, high_freq_factor = 4;  // llama3
  double beta_fast = 32, beta_slow = 1;              // yarn
  Auto<double> attention_factor;                     // yarn; auto: 0.1 ln(factor) + 1
  bool truncate = true;                              // yarn: whole bounds of its ramp
  bool operator==(const RopeScaling&) const = default;
};
struct Llama : LanguageModel {
  Auto<std::int64_t> kv_heads;       // auto: as many as heads
  Auto<std::int64_t> head_size;      // auto: width / heads
  std::int64_t intermediate = 2048;  // of the gated MLP
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double norm_eps = 1e-5;
  bool qkv_bias = false;  // Qwen2's
  bool operator==(const Llama&) const = default;
};
struct Vit : ModelCommon {
  std::int64_t image = 224, patch = 16;
  std::int64_t layers = 12, heads = 12, width = 768, intermediate = 3072;
  double dropout = 0;
  double norm_eps = 1e-6;
  bool operator==(const Vit&) const = default;
};
// Becomes one of the others, with weights, when the run starts.
struct HuggingFace : ModelCommon {
  std::string path;
  Auto<std::int64_t> context;
  double dropout = 0;
  bool operator==(const HuggingFace&) const = default;
};
using Model = std::variant<Mlp, LeNet, ResNet, Gpt2, Llama, Vit, HuggingFace>;

// What language models have in common; null for another kind.
const LanguageModel* language_model_of(const Model& model);
const ModelCommon& common(const Model& model);
ModelCommon& common(Model& model);

// --- data ----------------------------------------------------------------------------------------
enum class Interpolation { bilinear, bicubic };
struct Resize {  // shorter side to `size`
  std::int64_t size = 0;
  Interpolation interpolation = Interpolation::bilinear;
  bool operator==(const Resize&) const = default;
};
struct CenterCrop {
  std::int64_t size = 0;
  bool operator==(const CenterCrop&) const = default;
};
struct RandomCrop {
  std::int64_t size = 0;
  std::int64_t padding = 0;  // black pixels on each side before the crop
  bool operator==(const RandomCrop&) const = default;
};
struct RandomResizedCrop {
  std::int64_t size = 0;
  std::vector<double> scale{0.08, 1.0};
  std::vector<double> ratio{3.0 / 4.0, 4.0 / 3.0};
  Interpolation interpolation = Interpolation::bilinear;
  bool operator==(const RandomResizedCrop&) const = default;
};
struct HorizontalFlip {
  double p = 0.5;
  bool operator==(const HorizontalFlip&) const = default;
};
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  bool operator==(const ColorJitter&) const = default;
};
struct RandomErasing {  // after normalize only; erased pixels become 0, which is then the mean
  double p = 0.5;
  std::vector<double> scale{0.02, 0.33};
  std::vector<double> ratio{0.3, 3.3};
  bool operator==(const RandomErasing&) const = default;
};
// torchvision's RandAugment: `ops` random operations, all with the same strength.
struct RandAugment {
  std::int64_t ops = 2;
  std::int64_t magnitude = 9;  // of `bins` steps
  std::int64_t bins = 31;
  bool operator==(const RandAugment&) const = default;
};
// torchvision's TrivialAugmentWide: one random operation with a random strength.
struct TrivialAugment {
  std::int64_t bins = 31;
  bool operator==(const TrivialAugment&) const = default;
};
struct Normalize {  // on values scaled to [0, 1]; one name stands for its numbers
  std::vector<double> mean, std;
  bool operator==(const Normalize&) const = default;
};
using Transform = std::variant<Resize, CenterCrop, RandomCrop, RandomResizedCrop, HorizontalFlip,
                               ColorJitter, RandAugment, TrivialAugment, RandomErasing, Normalize>;

enum class Split { train, test };
struct SourceCommon {
  std::vector<Transform> transforms;
  Auto<std::int64_t>
      channels;  // what images are converted to: 1 or 3; auto: as the source has them
  bool operator==(const SourceCommon&) const = default;
};
struct Digits : SourceCommon {  // the embedded 8x8 digits
  Split split = Split::train;
  bool operator==(const Digits&) const = default;
};
// Sources of image files.
struct ImagesCommon : SourceCommon {
  std::vector<std::int64_t> background{0, 0, 0};    // 0..255, under transparent pixels
  std::int64_t max_pixels = std::int64_t{1} << 27;  // a larger picture is refused by its header
  bool exif_orientation = true;                     // turned as a camera noted
  bool operator==(const ImagesCommon&) const = default;
};
struct ImageFolder : ImagesCommon {  // path/<class>/<image>
  std::string path;
  bool index = true;  // keep the list of files in the user's cache folder
  bool operator==(const ImageFolder&) const = default;
};
// A list of files with labels: CSV with a header line or JSONL, columns or keys `path`, `label` (a
// class's name or index) and, optionally, `weight`.
struct Manifest : ImagesCommon {
  std::string path;
  Auto<std::string> root;  // what paths in it are relative to; auto: the manifest's folder
  std::vector<std::string>
      classes;  // names in the order of their indices; empty: those found, sorted
  bool operator==(const Manifest&) const = default;
};
// WebDataset's layout: tar files of <key>.<jpg|png|...> with <key>.<cls|json>.
struct TarShards : ImagesCommon {
  std::string path;  // a folder, a .tar file, or a glob of .tar files
  std::vector<std::string>
      classes;  // names; empty: classes.txt beside the shards, or the labels found
  bool index = true;
  bool operator==(const TarShards&) const = default;
};
struct Cifar : SourceCommon {
  int classes = 10;  // from the kind: cifar10 | cifar100
  std::string path;  // the folder of data_batch_1.bin ... or train.bin
  Split split = Split::train;
  bool operator==(const Cifar&) const = default;
};
struct Mnist : SourceCommon {
  std::string path;  // the folder of train-images-idx3-ubyte ..., gzip not accepted
  Split split = Split::train;
  bool operator==(const Mnist&) const = default;
};
struct Synthetic : SourceCommon {  // random images and labels, the same for equal seeds
  std::int64_t samples = 1280;
  std::vector<std::int64_t> shape{3, 224, 224};  // channels, height, width
  std::int64_t classes = 1000;
  bool operator==(const Synthetic&) const = default;
};

// --- text for language models --------------------------------------------------------------------
// What makes tokens of text.
struct Tokenizer {
  // characters: one token a code point of the data's whole text; file: at `path`.
  enum class Kind { bytes, characters, file };
  Kind kind = Kind::bytes;
  std::string path;  // a Hugging Face folder or tokenizer.json, vocab.json with merges.txt's
                     // folder, or a SentencePiece tokenizer.model
  bool operator==(const Tokenizer&) const = default;
};
// How documents become samples of `length` tokens.
enum class Packing {
  sequential,  // windows of one stream, without overlap, wherever documents end
  documents,   // whole documents side by side, which do not see each other
  none,        // one document a sample, padded, or cut off where it is longer
};
// A single corpus for training and validation: its tail is for validation.
enum class Part { all, train, val };
struct TokenSource {
  std::int64_t length = 1024;  // tokens of a sample
  Packing packing = Packing::sequential;
  Part part = Part::all;
  double val_share = 0.1;     // of the tokens, where `part` is train or val
  bool drop_partial = false;  // sequential only: the last window, where it is not full
  bool operator==(const TokenSource&) const = default;
};
// Tokens that are made already: nanoGPT's and llm.c's .bin files, or what `trainer data tokenize`
// wrote.
struct TokenFiles : TokenSource {
  std::string path;            // a file, a folder, or a glob of files
  Maybe<Tokenizer> tokenizer;  // only for samples of text; null: that of the tokenised shards
  bool operator==(const TokenFiles&) const = default;
};
struct TextFiles : TokenSource {
  std::string path;  // a file, a folder of .txt files (and folders of them), or a glob of files
  Tokenizer tokenizer;
  Maybe<std::string> document_separator;  // null: each file is a document
  bool cache = true;                      // keep the tokens in the user's cache folder
  bool operator==(const TextFiles&) const = default;
};
// What stands around the messages of a role.
struct RoleTemplate {
  std::string role;
  std::string prefix, suffix;  // special tokens may be spelt out in them
  bool operator==(const RoleTemplate&) const = default;
};
struct ChatTemplate {
  enum class Kind { alpaca, chatml, llama3, plain, custom };
  Kind kind = Kind::alpaca;
  std::vector<RoleTemplate> roles;  // custom only; an answer's suffix is learnt too
  bool operator==(const ChatTemplate&) const = default;
};
// A JSON object a line: {text}, {messages: [{role, content}, ...]}, {prompt, completion} or
// {instruction, input, output}. Of the last three only the answers are learnt.
struct JsonlFiles : TokenSource {
  std::string path;  // a file, a folder of .jsonl files (and folders of them), or a glob of files
  Tokenizer tokenizer;
  std::string text_key = "text";
  ChatTemplate chat;
  bool cache = true;
  bool operator==(const JsonlFiles&) const = default;
};
// The embedded text.
struct TinyShakespeare : TokenSource {
  Tokenizer tokenizer{Tokenizer::Kind::characters, ""};
  bool operator==(const TinyShakespeare&) const = default;
};
using TextSource = std::variant<TokenFiles, TextFiles, JsonlFiles, TinyShakespeare>;

using Source = std::variant<Digits, ImageFolder, Manifest, TarShards, Cifar, Mnist, Synthetic,
                            TokenFiles, TextFiles, JsonlFiles, TinyShakespeare>;

// What sources of images, or of text, have in common; null for the other kind.
const SourceCommon* images_of(const Source& source);
const TokenSource* text_of(const Source& source);

enum class Decode { automatic, cpu, gpu };
enum class BadSample { fail, skip, replace };
enum class CacheHolds { encoded, decoded };
struct NoCache {
  bool operator==(const NoCache&) const = default;
};
struct RamCache {
  Auto<std::int64_t> size;  // bytes; auto: half of the memory that is free at the start
  CacheHolds holds = CacheHolds::encoded;
  bool operator==(const RamCache&) const = default;
};
using Cache = std::variant<NoCache, RamCache>;

struct Loader {
  Auto<std::int64_t> workers;  // threads; 0: the training thread itself; auto: from the CPU limit
  std::int64_t prefetch = 4;   // global batches made ahead
  bool drop_last = false;
  Decode decode = Decode::automatic;  // where JPEG files are decoded
  BadSample on_bad_sample = BadSample::fail;
  double max_bad_share = 0.01;  // of the samples of a source, with skip and replace
  Cache cache = NoCache{};
  bool operator==(const Loader&) const = default;
};
// Per step one of the two, by a fair coin where both are on. alpha of Beta(alpha, alpha); 0 is off.
struct Mix {
  double mixup = 0;
  double cutmix = 0;
  double probability = 1;
  bool operator==(const Mix&) const = default;
};
struct Data {
  Source train;
  Maybe<Source> val;
  Loader loader;
  Maybe<Mix> mix;
  bool operator==(const Data&) const = default;
};

struct Batch {  // after `derive`: global, micro, accumulate and evaluate are all set
  Auto<std::int64_t> global, micro, accumulate;
  Auto<std::int64_t> evaluate;  // samples at once in evaluation; auto: micro
  bool operator==(const Batch&) const = default;
};

// --- numbers -------------------------------------------------------------------------------------
enum class PrecisionMode { fp32, bf16, fp16 };
struct Precision {
  PrecisionMode mode = PrecisionMode::fp32;
  bool tf32 = true;
  double initial_scale = 65536;         // fp16 only
  std::int64_t growth_interval = 2000;  // fp16 only: updates without overflow before it doubles
  bool operator==(const Precision&) const = default;
};

struct CrossEntropy {
  double label_smoothing = 0;
  bool operator==(const CrossEntropy&) const = default;
};
struct Mse {  // against one-hot targets, the mean over classes
  bool operator==(const Mse&) const = default;
};
struct LanguageModeling {  // cross-entropy of the next token
  double label_smoothing = 0;
  double z_loss = 0;  // coefficient of the squared log of the softmax's denominator
  bool operator==(const LanguageModeling&) const = default;
};
using Objective = std::variant<CrossEntropy, Mse, LanguageModeling>;

struct Group {
  std::string match;  // glob of parameter names; the first group that matches takes a parameter
  double lr_factor = 1;
  Maybe<double> weight_decay;  // null: the optimiser's
  bool operator==(const Group&) const = default;
};
struct Ema {
  double decay = 0.999;
  bool operator==(const Ema&) const = default;
};
struct OptimCommon {
  double lr = 1e-3;
  double weight_decay = 0;
  std::vector<Group> groups;
  Maybe<double> clip_norm;
  double layer_decay = 1;
  Maybe<Ema> ema;
  bool operator==(const OptimCommon&) const = default;
};
struct Sgd : OptimCommon {
  double momentum = 0;
  bool nesterov = false;
  bool operator==(const Sgd&) const = default;
};
struct Adam : OptimCommon {
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  bool decoupled = false;  // from the kind: adam false, adamw true
  bool operator==(const Adam&) const = default;
};
using Optim = std::variant<Sgd, Adam>;

struct ScheduleCommon {
  Length warmup{0, Length::Unit::steps};
  double warmup_start = 0;  // factor of lr at the first update of the warm-up
  Auto<Length> length;      // where the shape ends, warm-up included; auto: train.length
  bool operator==(const ScheduleCommon&) const = default;
};
struct Constant : ScheduleCommon {
  bool operator==(const Constant&) const = default;
};
struct Linear : ScheduleCommon {
  double final = 0;  // factor of lr at the end, and after it
  bool operator==(const Linear&) const = default;
};
struct Cosine : ScheduleCommon {
  double final = 0;
  bool operator==(const Cosine&) const = default;
};
struct Step : ScheduleCommon {
  Length every{30, Length::Unit::epochs};
  double gamma = 0.1;
  bool operator==(const Step&) const = default;
};
struct Multistep : ScheduleCommon {
  std::vector<Length> at;
  double gamma = 0.1;
  bool operator==(const Multistep&) const = default;
};
struct OneCycle : ScheduleCommon {  // cosine up to lr and down again (its warm-up is `rise`)
  double rise = 0.3;                // share of the length
  double start = 0.04;              // factor of lr at the first update
  double final = 1e-5;
  bool operator==(const OneCycle&) const = default;
};
struct Wsd : ScheduleCommon {  // warm-up, stable, then a linear decay at the end
  Length decay{0, Length::Unit::steps};
  double final = 0;
  bool operator==(const Wsd&) const = default;
};
using Schedule = std::variant<Constant, Linear, Cosine, Step, Multistep, OneCycle, Wsd>;

// --- the run -------------------------------------------------------------------------------------
enum class OnNonfinite { stop, skip };
enum class Mode { min, max };
struct StopEarly {
  std::string metric = "val/loss";
  Mode mode = Mode::min;
  std::int64_t patience = 5;  // evaluations without an improvement
  double min_delta = 0;
  bool operator==(const StopEarly&) const = default;
};
struct Train {
  Length length{10, Length::Unit::epochs};
  Maybe<Length> evaluate_every = Length{1, Length::Unit::epochs};
  Maybe<StopEarly> stop_early;
  OnNonfinite on_nonfinite = OnNonfinite::stop;
  bool operator==(const Train&) const = default;
};
enum class Allocator { standard, expandable };
// What becomes of the tensors that a model's blocks save for the backward pass.
struct KeepActivations {
  bool operator==(const KeepActivations&) const = default;
};
// Only the input of each group of `every` consecutive blocks stays; a group is run again, whole, in
// the backward pass.
struct RecomputeBlocks {
  std::int64_t every = 1;
  bool operator==(const RecomputeBlocks&) const = default;
};
// As RecomputeBlocks, block by block, but attention is kept and not run again.
struct RecomputeSelective {
  bool operator==(const RecomputeSelective&) const = default;
};
// They wait in the host's memory.
struct OffloadActivations {
  std::int64_t min_size = 1 << 20;  // bytes; smaller tensors stay on the device
  bool operator==(const OffloadActivations&) const = default;
};
using ActivationCheckpointing =
    std::variant<KeepActivations, RecomputeBlocks, RecomputeSelective, OffloadActivations>;
struct Memory {
  Allocator allocator = Allocator::expandable;
  ActivationCheckpointing activation_checkpointing = KeepActivations{};
  bool operator==(const Memory&) const = default;
};
struct Best {
  std::string metric = "val/accuracy";
  Mode mode = Mode::max;
  bool operator==(const Best&) const = default;
};
struct Checkpoint {
  Maybe<Length> every = Length{1, Length::Unit::epochs};  // null: only at the end and on signals
  std::int64_t keep = 3;
  Maybe<Best> best;
  bool operator==(const Checkpoint&) const = default;
};
enum class Console { automatic, progress, lines, quiet };
// Text that a language model writes after each evaluation.
struct SampleText {
  std::string prompt = "\n";
  std::int64_t tokens = 200;
  double temperature = 0.8;
  bool operator==(const SampleText&) const = default;
};
struct Log {
  Length every{1, Length::Unit::steps};
  Console console = Console::automatic;
  bool jsonl = true;
  bool csv = false;
  bool tensorboard = true;
  Auto<double> peak_tflops;  // what mfu is a share of; auto: by the GPU's name
  Maybe<SampleText> samples;
  bool operator==(const Log&) const = default;
};

struct Experiment {
  std::string name = "run";
  std::uint64_t seed = 1;
  bool deterministic = false;
  Device device;
  bool require_gpu = false;
  Model model;
  Data data;
  Batch batch;
  Precision precision;
  Objective objective;
  Optim optim;
  Schedule schedule;
  Train train;
  Memory memory;
  Checkpoint checkpoint;
  Log log;
  bool operator==(const Experiment&) const = default;
};

}  // namespace trainer::config

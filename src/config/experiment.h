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

struct ModelCommon {
  Auto<std::int64_t> classes;  // auto: as many as the training data has
  Maybe<Weights> weights;
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
using Model = std::variant<Mlp, LeNet, ResNet>;

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
using Source = std::variant<Digits, ImageFolder, Manifest, TarShards, Cifar, Mnist, Synthetic>;

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
using Objective = std::variant<CrossEntropy, Mse>;

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
struct Memory {
  Allocator allocator = Allocator::expandable;
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
struct Log {
  Length every{1, Length::Unit::steps};
  Console console = Console::automatic;
  bool jsonl = true;
  bool csv = false;
  bool tensorboard = true;
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

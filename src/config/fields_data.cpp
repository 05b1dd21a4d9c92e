#include "config/fields.h"

namespace trainer::config {
namespace {

constexpr std::int64_t kLargestSize = 16384;  // pixels of an image's side

Of<std::int64_t> pixels() { return integer(1, kLargestSize); }
Of<std::vector<double>> pair(const Range& range) { return list(number(range), 2, 2); }

Of<Interpolation> interpolation() {
  return choice<Interpolation>(
      {{"bilinear", Interpolation::bilinear}, {"bicubic", Interpolation::bicubic}});
}

Normalize imagenet() { return {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}}; }

Fields<Normalize> normalize() {
  return Fields<Normalize>()
      .required("mean", &Normalize::mean, list(number(between(-10, 10)), 1, 4),
                "Mean of each channel, of values scaled to [0, 1].")
      .required("std", &Normalize::std, list(number(above(0, 10)), 1, 4),
                "Standard deviation of each channel.")
      .preset("imagenet", imagenet(), "mean [0.485, 0.456, 0.406], std [0.229, 0.224, 0.225]")
      .preset("cifar10", {.mean = {0.4914, 0.4822, 0.4465}, .std = {0.2470, 0.2435, 0.2616}},
              "mean [0.4914, 0.4822, 0.4465], std [0.2470, 0.2435, 0.2616]")
      .preset("cifar100", {.mean = {0.5071, 0.4865, 0.4409}, .std = {0.2673, 0.2564, 0.2762}},
              "mean [0.5071, 0.4865, 0.4409], std [0.2673, 0.2564, 0.2762]")
      .preset("mnist", {.mean = {0.1307}, .std = {0.3081}}, "mean [0.1307], std [0.3081]")
      .preset("digits", {.mean = {0.3053}, .std = {0.3759}}, "mean [0.3053], std [0.3759]");
}

Of<Transform> transform() {
  const auto resize =
      Fields<Resize>()
          .required("size", &Resize::size, pixels(), "Pixels of the shorter side.")
          .field("interpolation", &Resize::interpolation, interpolation(), "Filter.")
          .short_for("size");
  const auto center_crop =
      Fields<CenterCrop>()
          .required("size", &CenterCrop::size, pixels(), "Pixels of each side.")
          .short_for("size");
  const auto random_crop =
      Fields<RandomCrop>()
          .required("size", &RandomCrop::size, pixels(), "Pixels of each side.")
          .field("padding", &RandomCrop::padding, integer(0, 4096),
                 "Black pixels added on each side before the crop.")
          .short_for("size");
  const auto random_resized_crop =
      Fields<RandomResizedCrop>()
          .required("size", &RandomResizedCrop::size, pixels(), "Pixels of each side.")
          .field("scale", &RandomResizedCrop::scale, pair(above(0, 1)),
                 "Smallest and largest share of the image's area.")
          .field("ratio", &RandomResizedCrop::ratio, pair(above(0, 100)),
                 "Smallest and largest width over height.")
          .field("interpolation", &RandomResizedCrop::interpolation, interpolation(), "Filter.")
          .short_for("size");
  const auto horizontal_flip =
      Fields<HorizontalFlip>()
          .field("p", &HorizontalFlip::p, number(between(0, 1)), "Probability.")
          .short_for("p");
  const Range strength = between(0, 10);
  const auto color_jitter = Fields<ColorJitter>()
                                .field("brightness", &ColorJitter::brightness, number(strength),
                                       "Factor drawn from [1 - x, 1 + x].")
                                .field("contrast", &ColorJitter::contrast, number(strength),
                                       "Factor drawn from [1 - x, 1 + x].")
                                .field("saturation", &ColorJitter::saturation, number(strength),
                                       "Factor drawn from [1 - x, 1 + x].")
                                .field("hue", &ColorJitter::hue, number(between(0, 0.5)),
                                       "Shift drawn from [-x, x], in turns of the colour circle.");
  const auto bins = integer(2, 256);
  const auto rand_augment =
      Fields<RandAugment>()
          .field("ops", &RandAugment::ops, integer(1, 16), "Operations on each image.")
          .field("magnitude", &RandAugment::magnitude, integer(0, 30),
                 "Strength of each, in steps; below bins.")
          .field("bins", &RandAugment::bins, bins, "Steps from no effect to the strongest.");
  const auto trivial_augment = Fields<TrivialAugment>().field(
      "bins", &TrivialAugment::bins, bins, "Steps from no effect to the strongest; one is drawn.");
  const auto random_erasing =
      Fields<RandomErasing>()
          .field("p", &RandomErasing::p, number(between(0, 1)), "Probability.")
          .field("scale", &RandomErasing::scale, pair(above(0, 1)),
                 "Smallest and largest share of the image's area.")
          .field("ratio", &RandomErasing::ratio, pair(above(0, 100)),
                 "Smallest and largest width over height.")
          .short_for("p");
  return NamedKinds<Transform>("transform")
      .kind("resize", resize, "Scales the shorter side to a size.")
      .kind("center_crop", center_crop, "Cuts the middle out.")
      .kind("random_crop", random_crop, "Cuts a square out at a random place.")
      .kind("random_resized_crop", random_resized_crop,
            "Cuts a rectangle of random size and shape out and scales it to a square.")
      .kind("horizontal_flip", horizontal_flip, "Mirrors left and right at random.")
      .kind("color_jitter", color_jitter, "Changes colours at random.")
      .kind("rand_augment", rand_augment,
            "RandAugment: several random operations of one strength, before normalize.")
      .kind("trivial_augment", trivial_augment,
            "TrivialAugment: one random operation of a random strength, before normalize.")
      .kind("random_erasing", random_erasing,
            "Sets a random rectangle to the mean; after normalize.")
      .kind("normalize", normalize(), "Subtracts a mean and divides by a deviation.")
      .type();
}

// The usual transforms of ImageNet's images, as torchvision's reference training has them.
std::vector<ListPreset<Transform>> recipes() {
  return {{"imagenet_train",
           {RandomResizedCrop{.size = 224}, HorizontalFlip{}, imagenet()},
           "`[{random_resized_crop: 224}, horizontal_flip, {normalize: imagenet}]`"},
          {"imagenet_eval",
           {Resize{.size = 256}, CenterCrop{.size = 224}, imagenet()},
           "`[{resize: 256}, {center_crop: 224}, {normalize: imagenet}]`"}};
}

template <class S>
Fields<S> source() {
  return Fields<S>()
      .field("transforms", &S::transforms, list(transform(), 0, 64, recipes()),
             "What is done with each image, in this order; or the name of a usual list.")
      .field("channels", &S::channels, automatic(one_of({1, 3})),
             "What images are converted to: 1 is grey, 3 is RGB. auto: as the source has them, "
             "which is 3 for image files.");
}

// The fields of sources of image files, `path` first.
template <class S>
Fields<S> images(const std::string& path_help) {
  return source<S>()
      .required("path", &S::path, text(4096), path_help)
      .field("background", &S::background, list(integer(0, 255), 1, 3),
             "Colour under transparent pixels: one number for each channel, or one for all.")
      .field("max_pixels", &S::max_pixels, integer(1, std::int64_t{1} << 31),
             "A file whose header tells of more pixels is bad, and is not decoded.")
      .field("exif_orientation", &S::exif_orientation, boolean(),
             "Turn photographs as the camera noted.");
}

Of<std::vector<std::string>> class_names() { return list(text(1000), 0, 100'000); }

template <class S>
Of<Split> split() {
  return choice<Split>({{"train", Split::train}, {"test", Split::test}});
}

Of<Source> source_type() {
  constexpr const char* kSplit = "Which part of the data.";
  const auto digits = source<Digits>().field("split", &Digits::split, split<Digits>(), kSplit);
  constexpr const char* kIndex =
      "Keep the list of samples in the user's cache folder, which makes the next start fast.";
  const auto folder = images<ImageFolder>("Folder with one folder of images for each class.")
                          .field("index", &ImageFolder::index, boolean(), kIndex);
  const auto manifest =
      images<Manifest>(
          "CSV file with a header line, or JSONL file; columns or keys path, label and, "
          "optionally, "
          "weight.")
          .field("root", &Manifest::root, automatic(text(4096)),
                 "Folder that paths in the manifest are relative to. auto: the manifest's own.")
          .field("classes", &Manifest::classes, class_names(),
                 "Names of the classes in the order of their indices; empty: the labels found, "
                 "sorted.");
  const auto shards =
      images<TarShards>("A folder of .tar files, one .tar file, or a glob of them.")
          .field("classes", &TarShards::classes, class_names(),
                 "Names of the classes in the order of their indices; empty: classes.txt beside "
                 "the shards, or the labels found.")
          .field("index", &TarShards::index, boolean(), kIndex);
  const auto cifar =
      source<Cifar>()
          .required("path", &Cifar::path, text(4096), "Folder of the binary version's files.")
          .field("split", &Cifar::split, split<Cifar>(), kSplit);
  const auto mnist =
      source<Mnist>()
          .required("path", &Mnist::path, text(4096), "Folder of the four idx files, unpacked.")
          .field("split", &Mnist::split, split<Mnist>(), kSplit);
  const auto synthetic =
      source<Synthetic>()
          .field("samples", &Synthetic::samples, integer(1, 1'000'000'000'000), "Images an epoch.")
          .field("shape", &Synthetic::shape, list(integer(1, kLargestSize), 3, 3),
                 "Channels, height and width.")
          .field("classes", &Synthetic::classes, integer(1, 1'000'000), "Number of labels.");
  return TaggedKinds<Source>("source")
      .kind("digits", digits, "8x8 handwritten digits that come with the program.")
      .kind("image_folder", folder, "Images in a folder for each class.")
      .kind("manifest", manifest, "Image files listed with their labels in a CSV or JSONL file.")
      .kind("tar_shards", shards,
            "Tar files in WebDataset's layout: KEY.jpg (or .png and others) with KEY.cls or "
            "KEY.json.")
      .kind("cifar10", cifar, "CIFAR-10, binary version.", &Cifar::classes, 10)
      .kind("cifar100", cifar, "CIFAR-100, binary version.", &Cifar::classes, 100)
      .kind("mnist", mnist, "MNIST or a set in its format.")
      .kind("synthetic", synthetic, "Random images and labels, for measuring speed.")
      .kind("text", text_files(), "Plain text.")
      .kind("jsonl", jsonl_files(),
            "A JSON object a line: documents, or conversations of which only the answers are "
            "learnt.")
      .kind("tokens", token_files(),
            "Token files: nanoGPT's, llm.c's, or those of `trainer data tokenize`.")
      .kind("tinyshakespeare", tiny_shakespeare(),
            "1.1 MB of Shakespeare's plays that come with the program.")
      .type();
}

Of<Cache> cache() {
  const auto holds =
      choice<CacheHolds>({{"encoded", CacheHolds::encoded}, {"decoded", CacheHolds::decoded}});
  const auto ram =
      Fields<RamCache>()
          .field("size", &RamCache::size, automatic(byte_size()),
                 "The most that it takes. auto: half of the memory that is free at the start.")
          .field("holds", &RamCache::holds, holds,
                 "The files as they are, or their pixels, which take more room and no decoding.")
          .short_for("size");
  return NamedKinds<Cache>("cache")
      .kind("none", Fields<NoCache>(), "Samples are read anew in each epoch.")
      .kind("ram", ram, "Samples stay in memory, as far as they fit.")
      .type();
}

Fields<Loader> loader() {
  const auto decode =
      choice<Decode>({{"auto", Decode::automatic}, {"cpu", Decode::cpu}, {"gpu", Decode::gpu}});
  const auto on_bad_sample = choice<BadSample>(
      {{"fail", BadSample::fail}, {"skip", BadSample::skip}, {"replace", BadSample::replace}});
  return Fields<Loader>()
      .field("workers", &Loader::workers, automatic(integer(0, 1024)),
             "Threads that read and transform. 0: the training thread does it; auto: by the CPUs "
             "of this process.")
      .field("prefetch", &Loader::prefetch, integer(1, 256), "Global batches made ahead.")
      .field("drop_last", &Loader::drop_last, boolean(),
             "Leave out the last, short batch of an epoch.")
      .field("decode", &Loader::decode, decode,
             "Where JPEG files are decoded. auto: by the machine and the transforms.")
      .field("on_bad_sample", &Loader::on_bad_sample, on_bad_sample,
             "What a sample that can't be read leads to. fail: the run ends; skip: it is left "
             "out; replace: another takes its place.")
      .field("max_bad_share", &Loader::max_bad_share, number(between(0, 1)),
             "Share of a source's samples above which the run ends all the same, for skip and "
             "replace.")
      .field("cache", &Loader::cache, cache(), "Whether samples are kept in memory.");
}

}  // namespace

Of<Data> data_type() {
  const auto mix = Fields<Mix>()
                       .field("mixup", &Mix::mixup, number(between(0, 100)),
                              "alpha of Beta(alpha, alpha) for mixup; 0 is off.")
                       .field("cutmix", &Mix::cutmix, number(between(0, 100)),
                              "alpha of Beta(alpha, alpha) for CutMix; 0 is off.")
                       .field("probability", &Mix::probability, number(above(0, 1)),
                              "Share of the steps that are mixed.");
  const Of<Source> source = source_type();
  return Fields<Data>()
      .required("train", &Data::train, source, "What is trained on.")
      .field("val", &Data::val, maybe(source), "What is evaluated on; null: no evaluation.")
      .field("loader", &Data::loader, loader().type(), "How samples get to the device.")
      .field("mix", &Data::mix, maybe(mix.type()), "Blending of samples and their labels.")
      .type();
}

}  // namespace trainer::config

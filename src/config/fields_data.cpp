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

Fields<Normalize> normalize() {
  return Fields<Normalize>()
      .required("mean", &Normalize::mean, list(number(between(-10, 10)), 1, 4),
                "Mean of each channel, of values scaled to [0, 1].")
      .required("std", &Normalize::std, list(number(above(0, 10)), 1, 4),
                "Standard deviation of each channel.")
      .preset("imagenet", {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}},
              "mean [0.485, 0.456, 0.406], std [0.229, 0.224, 0.225]")
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
      .kind("random_erasing", random_erasing,
            "Sets a random rectangle to the mean; after normalize.")
      .kind("normalize", normalize(), "Subtracts a mean and divides by a deviation.")
      .type();
}

template <class S>
Fields<S> source() {
  return Fields<S>().field("transforms", &S::transforms, list(transform(), 0, 64),
                           "What is done with each image, in this order.");
}

template <class S>
Of<Split> split() {
  return choice<Split>({{"train", Split::train}, {"test", Split::test}});
}

Of<Source> source_type() {
  constexpr const char* kSplit = "Which part of the data.";
  const auto digits = source<Digits>().field("split", &Digits::split, split<Digits>(), kSplit);
  const auto folder = source<ImageFolder>().required(
      "path", &ImageFolder::path, text(4096), "Folder with one folder of images for each class.");
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
      .kind("cifar10", cifar, "CIFAR-10, binary version.", &Cifar::classes, 10)
      .kind("cifar100", cifar, "CIFAR-100, binary version.", &Cifar::classes, 100)
      .kind("mnist", mnist, "MNIST or a set in its format.")
      .kind("synthetic", synthetic, "Random images and labels, for measuring speed.")
      .type();
}

}  // namespace

Of<Data> data_type() {
  const auto loader =
      Fields<Loader>()
          .field("workers", &Loader::workers, automatic(integer(0, 1024)),
                 "Threads that read and transform. 0: the training thread does it; auto: by the "
                 "CPUs of this process.")
          .field("prefetch", &Loader::prefetch, integer(1, 256), "Global batches made ahead.")
          .field("drop_last", &Loader::drop_last, boolean(),
                 "Leave out the last, short batch of an epoch.");
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
      .field("loader", &Data::loader, loader.type(), "How samples get to the device.")
      .field("mix", &Data::mix, maybe(mix.type()), "Blending of samples and their labels.")
      .type();
}

}  // namespace trainer::config

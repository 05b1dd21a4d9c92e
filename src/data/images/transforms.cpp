#include "data/images/transforms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"

// Note [Draws]: each transform takes a fixed number of draws from the stream, whatever the image
// and whatever it decides, so that a change of one transform's outcome never shifts another's
// numbers.

namespace trainer::data {
namespace {

using Size = std::pair<int, int>;  // height, width

// {0, ..., count-1} from a uniform draw.
int pick(double draw, int count) { return std::min(static_cast<int>(draw * count), count - 1); }

// To the nearest integer, halves to the even one, as Python's round.
int round_even(double value) { return static_cast<int>(std::nearbyint(value)); }

Size resized(const config::Resize& resize, Size size) {
  const int shorter = std::min(size.first, size.second);
  const int longer = std::max(size.first, size.second);
  const auto grown = static_cast<int>(static_cast<double>(resize.size * longer) / shorter);
  const auto wanted = static_cast<int>(resize.size);
  return size.first <= size.second ? Size{wanted, std::max(grown, 1)}
                                   : Size{std::max(grown, 1), wanted};
}

void add(const config::Resize& resize, Stream&, PlanBuilder& plan) {
  const Size size = resized(resize, {plan.height(), plan.width()});
  if (size == Size{plan.height(), plan.width()}) return;
  plan.resize({0, 0, plan.height(), plan.width()}, size.first, size.second, resize.interpolation);
}

// Where a crop of `wanted` starts in `have`; an image that is too small is padded first, with the
// smaller half before it.
int centre_offset(int have, int wanted) {
  return have < wanted ? -((wanted - have) / 2) : round_even((have - wanted) / 2.0);
}

void add(const config::CenterCrop& center, Stream&, PlanBuilder& plan) {
  const auto size = static_cast<int>(center.size);
  plan.crop({centre_offset(plan.height(), size), centre_offset(plan.width(), size), size, size});
}

void add(const config::RandomCrop& random_crop, Stream& random, PlanBuilder& plan) {
  const auto size = static_cast<int>(random_crop.size);
  const auto padding = static_cast<int>(random_crop.padding);
  const int rows = plan.height() + 2 * padding - size + 1;
  const int columns = plan.width() + 2 * padding - size + 1;
  const double vertical = random.uniform();
  const double horizontal = random.uniform();
  if (rows < 1 || columns < 1) {
    throw Error(Exit::data, "random_crop needs " + std::to_string(size) + "x" +
                                std::to_string(size) + " pixels, but the image has " +
                                std::to_string(plan.height()) + "x" + std::to_string(plan.width()) +
                                "; put a resize before it or give it a padding");
  }
  plan.crop({pick(vertical, rows) - padding, pick(horizontal, columns) - padding, size, size});
}

// The largest crop in the middle whose ratio of width to height is allowed.
Rectangle central(const std::vector<double>& ratio, int height, int width) {
  Rectangle box{0, 0, height, width};
  const double have = static_cast<double>(width) / height;
  if (have < ratio[0])
    box.height = round_even(width / ratio[0]);
  else if (have > ratio[1])
    box.width = round_even(height * ratio[1]);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

constexpr int kTries = 10;

// Everything that the choice of a rectangle may need, drawn before anything is known of the image.
struct RectangleDraws {
  std::array<std::pair<double, double>, kTries> tries;  // share of the area, logarithm of the ratio
  double vertical = 0, horizontal = 0;                  // where it lies, from 0 to 1
};

RectangleDraws draw_rectangles(const std::vector<double>& scale, const std::vector<double>& ratio,
                               Stream& random) {
  RectangleDraws draws;
  for (auto& [area, log_ratio] : draws.tries) {
    area = random.uniform(scale[0], scale[1]);
    log_ratio = random.uniform(std::log(ratio[0]), std::log(ratio[1]));
  }
  draws.vertical = random.uniform();
  draws.horizontal = random.uniform();
  return draws;
}

// A rectangle of a uniform share of the area and a log-uniform ratio; the first of ten that fits.
Rectangle choose_crop(const config::RandomResizedCrop& config, int height, int width,
                      Stream& random) {
  const RectangleDraws draws = draw_rectangles(config.scale, config.ratio, random);
  const double whole = static_cast<double>(height) * width;
  for (const auto& [area, log_ratio] : draws.tries) {
    const double ratio = std::exp(log_ratio);
    const int box_width = round_even(std::sqrt(whole * area * ratio));
    const int box_height = round_even(std::sqrt(whole * area / ratio));
    if (box_width < 1 || box_width > width || box_height < 1 || box_height > height) continue;
    return {pick(draws.vertical, height - box_height + 1),
            pick(draws.horizontal, width - box_width + 1), box_height, box_width};
  }
  return central(config.ratio, height, width);
}

void add(const config::RandomResizedCrop& config, Stream& random, PlanBuilder& plan) {
  const Rectangle box = choose_crop(config, plan.height(), plan.width(), random);
  const auto size = static_cast<int>(config.size);
  plan.resize(box, size, size, config.interpolation);
}

void add(const config::HorizontalFlip& flip, Stream& random, PlanBuilder& plan) {
  if (random.uniform() < flip.p) plan.mirror();
}

void add(const config::ColorJitter& config, Stream& random, PlanBuilder& plan) {
  Jitter jitter;
  for (int i = 3; i > 0; --i)
    std::swap(jitter.order[static_cast<std::size_t>(i)],
              jitter.order[static_cast<std::size_t>(pick(random.uniform(), i + 1))]);
  const auto factor = [&random](double spread) {
    return random.uniform(std::max(0.0, 1.0 - spread), 1.0 + spread);
  };
  const std::array<double, 4> drawn{factor(config.brightness), factor(config.contrast),
                                    factor(config.saturation),
                                    random.uniform(-config.hue, config.hue)};
  const std::array<double, 4> spreads{config.brightness, config.contrast, config.saturation,
                                      config.hue};
  for (std::size_t i = 0; i < drawn.size(); ++i)
    if (spreads[i] > 0) jitter.factors[i] = drawn[i];
  plan.jitter(jitter);
}

void add(const config::RandAugment& config, Stream& random, PlanBuilder& plan) {
  const auto ops = static_cast<int>(kRandAugmentOps.size());
  for (std::int64_t i = 0; i < config.ops; ++i) {
    const AugmentOp op = kRandAugmentOps[static_cast<std::size_t>(pick(random.uniform(), ops))];
    const bool negate = random.uniform() < 0.5;
    plan.augment(rand_augmentation(op, static_cast<int>(config.magnitude),
                                   static_cast<int>(config.bins), plan.height(), plan.width(),
                                   negate));
  }
}

void add(const config::TrivialAugment& config, Stream& random, PlanBuilder& plan) {
  const auto ops = static_cast<int>(kTrivialAugmentOps.size());
  const auto bins = static_cast<int>(config.bins);
  const AugmentOp op = kTrivialAugmentOps[static_cast<std::size_t>(pick(random.uniform(), ops))];
  const int bin = pick(random.uniform(), bins);
  const bool negate = random.uniform() < 0.5;
  plan.augment(trivial_augmentation(op, bin, bins, negate));
}

// As torchvision: the first of ten tries that is smaller than the image, else none.
Rectangle choose_erase(const config::RandomErasing& config, int height, int width, Stream& random) {
  const bool erases = random.uniform() < config.p;
  const RectangleDraws draws = draw_rectangles(config.scale, config.ratio, random);
  if (!erases) return {};
  const double whole = static_cast<double>(height) * width;
  for (const auto& [area, log_ratio] : draws.tries) {
    const double ratio = std::exp(log_ratio);
    const int box_height = round_even(std::sqrt(whole * area * ratio));
    const int box_width = round_even(std::sqrt(whole * area / ratio));
    if (box_height < 1 || box_width < 1 || box_height >= height || box_width >= width) continue;
    return {pick(draws.vertical, height - box_height + 1),
            pick(draws.horizontal, width - box_width + 1), box_height, box_width};
  }
  return {};
}

// The size after `transform` where it is known before it or fixed by it.
std::optional<Size> size_after(const config::Transform& transform, std::optional<Size> before) {
  const auto square = [](std::int64_t side) {
    return Size{static_cast<int>(side), static_cast<int>(side)};
  };
  if (const auto* crop = std::get_if<config::CenterCrop>(&transform)) return square(crop->size);
  if (const auto* crop = std::get_if<config::RandomCrop>(&transform)) return square(crop->size);
  if (const auto* crop = std::get_if<config::RandomResizedCrop>(&transform))
    return square(crop->size);
  if (const auto* resize = std::get_if<config::Resize>(&transform))
    return before ? std::optional(resized(*resize, *before)) : std::nullopt;
  return before;
}

std::vector<float> by_channel(const std::vector<double>& values, int channels, const char* name) {
  const auto count = static_cast<std::size_t>(channels);
  if (values.size() != count && values.size() != 1) {
    throw Error(Exit::config, std::string("transforms: normalize.") + name + " has " +
                                  std::to_string(values.size()) + " values, but the images have " +
                                  std::to_string(channels) + " channels");
  }
  std::vector<float> result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = static_cast<float>(values[values.size() == 1 ? 0 : i]);
  return result;
}

}  // namespace

struct Pipeline::Impl {
  std::vector<config::Transform> on_pixels;
  std::optional<config::Normalize> normalize;
  std::optional<config::RandomErasing> erasing;
  Normalisation normalisation;
  std::optional<Size> output_size;

  void add(const config::Transform& transform) {
    if (erasing) {
      throw Error(Exit::config, std::holds_alternative<config::RandomErasing>(transform)
                                    ? "transforms: random_erasing stands there twice; keep one"
                                    : "transforms: random_erasing must be the last");
    }
    if (const auto* wanted = std::get_if<config::RandomErasing>(&transform)) {
      if (!normalize) {
        throw Error(Exit::config,
                    "transforms: random_erasing stands before normalize; put it last, since it "
                    "fills with 0, the mean of normalised values");
      }
      erasing = *wanted;
      return;
    }
    if (const auto* wanted = std::get_if<config::Normalize>(&transform)) {
      if (normalize)
        throw Error(Exit::config, "transforms: normalize stands there twice; keep one");
      normalize = *wanted;
      return;
    }
    if (normalize) {
      throw Error(Exit::config,
                  "transforms: only random_erasing may follow normalize; move normalize behind the "
                  "transforms of pixels");
    }
    on_pixels.push_back(transform);
    output_size = size_after(transform, output_size);
  }
};

Pipeline::Pipeline(const std::vector<config::Transform>& transforms, int channels)
    : impl_(std::make_unique<Impl>()) {
  for (const config::Transform& transform : transforms) impl_->add(transform);
  const config::Normalize identity{{0.0}, {1.0}};
  const config::Normalize& normalize = impl_->normalize.value_or(identity);
  impl_->normalisation.mean = by_channel(normalize.mean, channels, "mean");
  impl_->normalisation.std = by_channel(normalize.std, channels, "std");
  for (const float deviation : impl_->normalisation.std) {
    if (deviation > 0.0F) continue;
    throw Error(Exit::config, "transforms: normalize.std must be positive");
  }
}

Pipeline::~Pipeline() = default;
Pipeline::Pipeline(Pipeline&&) noexcept = default;

void Pipeline::plan(int height, int width, Stream& random, SamplePlan& plan) const {
  PlanBuilder builder(height, width, plan);
  for (const config::Transform& transform : impl_->on_pixels) {
    std::visit(
        [&](const auto& one) {
          using Kind = std::decay_t<decltype(one)>;
          if constexpr (!std::is_same_v<Kind, config::Normalize> &&
                        !std::is_same_v<Kind, config::RandomErasing>)
            add(one, random, builder);
        },
        transform);
  }
  if (impl_->erasing)
    plan.erase = choose_erase(*impl_->erasing, plan.final_height, plan.final_width, random);
}

int Pipeline::channels() const { return static_cast<int>(impl_->normalisation.mean.size()); }

const Normalisation& Pipeline::normalisation() const { return impl_->normalisation; }

bool Pipeline::erases() const { return impl_->erasing.has_value(); }

std::optional<std::pair<int, int>> Pipeline::output_size() const { return impl_->output_size; }

bool Pipeline::may_reduce(int height, int width) const {
  const std::int64_t shorter = std::min(height, width);
  for (const config::Transform& transform : impl_->on_pixels) {
    if (const auto* one = std::get_if<config::RandomResizedCrop>(&transform))
      return shorter >= 4 * one->size;
    if (const auto* one = std::get_if<config::Resize>(&transform)) return shorter >= 4 * one->size;
  }
  return false;
}

const char* Pipeline::cpu_only() const {
  bool geometry_is_over = false;
  bool resized = false;
  for (const config::Transform& transform : impl_->on_pixels) {
    if (std::holds_alternative<config::RandAugment>(transform)) return "rand_augment";
    if (std::holds_alternative<config::TrivialAugment>(transform)) return "trivial_augment";
    if (std::holds_alternative<config::ColorJitter>(transform)) {
      geometry_is_over = true;
      continue;
    }
    if (std::holds_alternative<config::HorizontalFlip>(transform)) continue;
    const bool resizes = std::holds_alternative<config::Resize>(transform) ||
                         std::holds_alternative<config::RandomResizedCrop>(transform);
    if (geometry_is_over) return "a resize or crop behind color_jitter";
    if (resizes && resized) return "a second resize";
    resized = resized || resizes;
  }
  return nullptr;
}

}  // namespace trainer::data

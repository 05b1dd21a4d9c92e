#include "data/images/augment.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numbers>
#include <utility>

#include "data/images/colour.h"
#include "data/images/colour_math.h"

namespace trainer::data {
namespace {

// --- Geometry ---

// Pixel (x, y) of the result comes from (xx x + xy y + x0, yx x + yy y + y0).
struct Affine {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};

double radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }
double degrees(double radians) { return radians * (180.0 / std::numbers::pi); }

// torchvision hands shears on in degrees. The way there and back costs the last bits of the slope,
// which decide where 16 bits of it lie on a tie.
double shear_angle(double slope) { return radians(degrees(std::atan(slope))); }

Affine shear_x(double slope) { return {.xy = std::tan(shear_angle(slope))}; }

Affine shear_y(double slope) {
  const double angle = shear_angle(slope);
  return {.yx = std::sin(angle) / std::cos(angle)};
}

Affine rotation(double angle, int height, int width) {
  const double centre_x = width / 2.0;
  const double centre_y = height / 2.0;
  const double turn = radians(angle);
  const double cosine = std::cos(turn);
  const double sine = std::sin(turn);
  return {.xx = cosine,
          .xy = -sine,
          .x0 = cosine * -centre_x - sine * -centre_y + centre_x,
          .yx = sine,
          .yy = cosine,
          .y0 = sine * -centre_x + cosine * -centre_y + centre_y};
}

// Coordinates with 16 fractional bits, as Pillow steps through them: their rounding decides which
// pixel is the nearest. 64 bits hold those of any image, where Pillow turns to floating point.
using Fixed = std::int64_t;

Fixed fixed(double value) { return static_cast<Fixed>(std::floor(value * 65536.0 + 0.5)); }

template <int channels>
void sample_row(const Image& image, Fixed x, Fixed y, Fixed step_x, Fixed step_y, std::uint8_t fill,
                std::uint8_t* out) {
  const auto width = static_cast<std::uint64_t>(image.width);
  const auto height = static_cast<std::uint64_t>(image.height);
  for (int i = 0; i < image.width; ++i, x += step_x, y += step_y, out += channels) {
    // Negative ones become large: one comparison does for both ends.
    const auto column = static_cast<std::uint64_t>(x >> 16);
    const auto row = static_cast<std::uint64_t>(y >> 16);
    if (column < width && row < height)
      std::copy_n(image.pixels.data() + (row * width + column) * channels, channels, out);
    else
      std::fill_n(out, channels, fill);
  }
}

void transform(const Affine& affine, std::uint8_t fill, Image& image, Image& scratch) {
  scratch.height = image.height;
  scratch.width = image.width;
  scratch.channels = image.channels;
  scratch.pixels.resize(image.pixels.size());
  const auto sample = image.channels == 3 ? sample_row<3> : sample_row<1>;
  const auto row_size = static_cast<std::size_t>(image.width) * image.channels;
  // A pixel stands for its middle.
  Fixed x = fixed(affine.x0 + affine.xx * 0.5 + affine.xy * 0.5);
  Fixed y = fixed(affine.y0 + affine.yx * 0.5 + affine.yy * 0.5);
  for (int row = 0; row < image.height; ++row) {
    sample(image, x, y, fixed(affine.xx), fixed(affine.yx), fill,
           scratch.pixels.data() + row * row_size);
    x += fixed(affine.xy);
    y += fixed(affine.yy);
  }
  std::swap(image, scratch);
}

// --- Values ---

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<std::int64_t, 256>;

template <class Function>
Table table_of(Function&& function) {
  Table table{};
  for (int value = 0; value < 256; ++value)
    table[static_cast<std::size_t>(value)] =
        static_cast<std::uint8_t>(std::clamp<std::int64_t>(function(value), 0, 255));
  return table;
}

void posterize(Image& image, int bits) {
  const auto mask = static_cast<std::uint8_t>(0xFF << (8 - bits));
  for (std::uint8_t& pixel : image.pixels) pixel &= mask;
}

void solarize(Image& image, double threshold) {
  const Table table =
      table_of([threshold](int value) { return value < threshold ? value : 255 - value; });
  for (std::uint8_t& pixel : image.pixels) pixel = table[pixel];
}

// Maps the values of each channel through what `table` makes of the channel's histogram.
void map_channels(Image& image, Table (*table)(const Histogram&)) {
  const auto channels = static_cast<std::size_t>(image.channels);
  for (std::size_t channel = 0; channel < channels; ++channel) {
    Histogram histogram{};
    for (std::size_t i = channel; i < image.pixels.size(); i += channels)
      ++histogram[image.pixels[i]];
    const Table mapped = table(histogram);
    for (std::size_t i = channel; i < image.pixels.size(); i += channels)
      image.pixels[i] = mapped[image.pixels[i]];
  }
}

bool occurs(std::int64_t count) { return count != 0; }

int lowest(const Histogram& histogram) {
  return static_cast<int>(std::find_if(histogram.begin(), histogram.end(), occurs) -
                          histogram.begin());
}

int highest(const Histogram& histogram) {
  return 255 - static_cast<int>(std::find_if(histogram.rbegin(), histogram.rend(), occurs) -
                                histogram.rbegin());
}

int unchanged(int value) { return value; }

// Spreads the values to 0..255.
Table stretched(const Histogram& histogram) {
  const int low = lowest(histogram);
  const int high = highest(histogram);
  if (high <= low) return table_of(unchanged);
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  return table_of([=](int value) { return static_cast<int>(value * scale + offset); });
}

// Gives each of the 255 steps as many pixels as there are, without those of the highest value.
Table equalized(const Histogram& histogram) {
  std::int64_t below_highest = 0;
  for (int value = lowest(histogram); value < highest(histogram); ++value)
    below_highest += histogram[static_cast<std::size_t>(value)];
  const std::int64_t step = below_highest / 255;
  if (step == 0) return table_of(unchanged);
  std::int64_t below = step / 2;
  return table_of([&](int value) {
    const std::int64_t level = below / step;
    below += histogram[static_cast<std::size_t>(value)];
    return level;
  });
}

// --- Sharpness ---

// The mean of 3x3 pixels, the middle one counted five times, rounded; `row` is the bytes from one
// row to the next. Sums are whole and 13 is odd: there are no ties.
template <int channels>
int smoothed(const std::uint8_t* middle, std::ptrdiff_t row) {
  int sum = 4 * middle[0];
  for (const std::uint8_t* line : {middle - row, middle, middle + row})
    sum += line[-channels] + line[0] + line[channels];
  return (2 * sum + 13) / 26;
}

// The border stays, as it has too few neighbours.
template <int channels>
void sharpen(Image& image, double factor, Image& scratch) {
  if (image.height < 3 || image.width < 3) return;
  scratch = image;
  const std::ptrdiff_t row = std::ptrdiff_t{image.width} * channels;
  for (int y = 1; y < image.height - 1; ++y) {
    const std::uint8_t* in = scratch.pixels.data() + y * row;
    std::uint8_t* out = image.pixels.data() + y * row;
    for (std::ptrdiff_t i = channels; i < row - channels; ++i)
      out[i] = colour::blend(smoothed<channels>(in + i, row), in[i], static_cast<float>(factor));
  }
}

void adjust_sharpness(Image& image, double factor, Image& scratch) {
  if (image.channels == 3)
    sharpen<3>(image, factor, scratch);
  else
    sharpen<1>(image, factor, scratch);
}

// --- Spaces ---

// The magnitudes of an op's last bin; the first one's is 0, of solarize 255 and of posterize 8.
struct Space {
  double shear, translate_x, translate_y, rotate, enhance;
  int posterize;
};

// torch.linspace(start, end, steps)[index] in single precision, from the nearer end and with one
// rounding, as torch does it on processors with AVX2. It matters: bin 15 of 31 from 0 to 32 lies
// just below 16, and translations are cut to whole pixels.
double linspace(double start, double end, int index, int steps) {
  const auto first = static_cast<float>(start);
  const auto last = static_cast<float>(end);
  const float step = (last - first) / static_cast<float>(steps - 1);
  const bool near_start = index < steps / 2;
  const int away = near_start ? index : index - (steps - 1);
  return static_cast<double>(std::fma(step, static_cast<float>(away), near_start ? first : last));
}

// Ties go to the even number of bits, as torch.round does.
int posterize_bits(int least, int bin, int bins) {
  const auto bins_per_bit = static_cast<float>((bins - 1) / static_cast<double>(8 - least));
  return 8 - static_cast<int>(std::nearbyint(static_cast<float>(bin) / bins_per_bit));
}

double magnitude_of(AugmentOp op, const Space& space, int bin, int bins) {
  switch (op) {
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
      return linspace(0, space.shear, bin, bins);
    case AugmentOp::translate_x:
      return linspace(0, space.translate_x, bin, bins);
    case AugmentOp::translate_y:
      return linspace(0, space.translate_y, bin, bins);
    case AugmentOp::rotate:
      return linspace(0, space.rotate, bin, bins);
    case AugmentOp::brightness:
    case AugmentOp::color:
    case AugmentOp::contrast:
    case AugmentOp::sharpness:
      return linspace(0, space.enhance, bin, bins);
    case AugmentOp::posterize:
      return posterize_bits(space.posterize, bin, bins);
    case AugmentOp::solarize:
      return linspace(255, 0, bin, bins);
    case AugmentOp::identity:
    case AugmentOp::auto_contrast:
    case AugmentOp::equalize:
      break;
  }
  return 0;
}

Augmentation augmentation(AugmentOp op, const Space& space, int bin, int bins, bool negate) {
  assert(bins >= 2 && bin >= 0 && bin < bins);
  const double magnitude = magnitude_of(op, space, bin, bins);
  return {op, negate && is_signed(op) ? -magnitude : magnitude};
}

}  // namespace

void augment(const Augmentation& what, std::uint8_t fill, Image& image, Image& scratch) {
  const double magnitude = what.magnitude;
  switch (what.op) {
    case AugmentOp::identity:
      return;
    case AugmentOp::shear_x:
      return transform(shear_x(magnitude), fill, image, scratch);
    case AugmentOp::shear_y:
      return transform(shear_y(magnitude), fill, image, scratch);
    case AugmentOp::translate_x:
      return transform({.x0 = -std::trunc(magnitude)}, fill, image, scratch);
    case AugmentOp::translate_y:
      return transform({.y0 = -std::trunc(magnitude)}, fill, image, scratch);
    case AugmentOp::rotate:
      return transform(rotation(magnitude, image.height, image.width), fill, image, scratch);
    case AugmentOp::brightness:
      return adjust_brightness(image, 1.0 + magnitude);
    case AugmentOp::color:
      return adjust_saturation(image, 1.0 + magnitude);
    case AugmentOp::contrast:
      return adjust_contrast(image, 1.0 + magnitude);
    case AugmentOp::sharpness:
      return adjust_sharpness(image, 1.0 + magnitude, scratch);
    case AugmentOp::posterize:
      return posterize(image, static_cast<int>(magnitude));
    case AugmentOp::solarize:
      return solarize(image, magnitude);
    case AugmentOp::auto_contrast:
      return map_channels(image, stretched);
    case AugmentOp::equalize:
      return map_channels(image, equalized);
  }
}

Augmentation rand_augmentation(AugmentOp op, int magnitude, int bins, int height, int width,
                               bool negate) {
  const double share = 150.0 / 331.0;  // of a side, at most
  const Space space{.shear = 0.3,
                    .translate_x = share * width,
                    .translate_y = share * height,
                    .rotate = 30,
                    .enhance = 0.9,
                    .posterize = 4};
  return augmentation(op, space, magnitude, bins, negate);
}

Augmentation trivial_augmentation(AugmentOp op, int bin, int bins, bool negate) {
  const Space space{.shear = 0.99,
                    .translate_x = 32,
                    .translate_y = 32,
                    .rotate = 135,
                    .enhance = 0.99,
                    .posterize = 2};
  return augmentation(op, space, bin, bins, negate);
}

}  // namespace trainer::data

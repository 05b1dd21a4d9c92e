#include "data/images/colour.h"

#include <algorithm>
#include <array>

#include "data/images/colour_math.h"

namespace trainer::data {
namespace {

// What blending with one fixed grey does to each of the 256 values.
void blend_with(Image& image, int grey, double factor) {
  std::array<std::uint8_t, 256> table{};
  for (int value = 0; value < 256; ++value)
    table[static_cast<std::size_t>(value)] = colour::blend(grey, value, static_cast<float>(factor));
  for (std::uint8_t& pixel : image.pixels) pixel = table[pixel];
}

int mean_of(const Image& image) {
  long long sum = 0;
  if (image.channels == 1) {
    for (const std::uint8_t pixel : image.pixels) sum += pixel;
  } else {
    for (std::size_t i = 0; i < image.pixels.size(); i += 3)
      sum += colour::luma(image.pixels.data() + i);
  }
  return colour::mean_grey(sum, static_cast<double>(image.height) * image.width);
}

}  // namespace

void convert_channels(Bytes pixels, int height, int width, int from, int to, Image& image) {
  const auto count = static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  image.height = height;
  image.width = width;
  image.channels = to;
  image.pixels.resize(count * static_cast<std::size_t>(to));
  if (from == to) {
    std::copy(pixels.begin(), pixels.end(), image.pixels.begin());
  } else if (to == 3) {
    for (std::size_t i = 0; i < count; ++i) std::fill_n(image.pixels.data() + 3 * i, 3, pixels[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i)
      image.pixels[i] = static_cast<std::uint8_t>(colour::luma(pixels.data() + 3 * i));
  }
}

void adjust_brightness(Image& image, double factor) { blend_with(image, 0, factor); }

void adjust_contrast(Image& image, double factor) { blend_with(image, mean_of(image), factor); }

void adjust_saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3)
    colour::saturate(image.pixels.data() + i, static_cast<float>(factor));
}

void adjust_hue(Image& image, double factor) {
  if (image.channels != 3) return;
  const int shift = colour::hue_shift(factor);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3)
    colour::turn_hue(image.pixels.data() + i, shift);
}

}  // namespace trainer::data

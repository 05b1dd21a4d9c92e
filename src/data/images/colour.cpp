#include "data/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trainer::data {
namespace {

// ITU-R 601-2 luma in 16-bit fixed point.
int luma(const std::uint8_t* rgb) {
  return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16;
}

// towards = 0, value = 1; the fraction is cut off and the range clipped, as Pillow's blend does.
std::uint8_t blend(int towards, int value, float factor) {
  const float blended = static_cast<float>(towards) + factor * static_cast<float>(value - towards);
  return static_cast<std::uint8_t>(std::clamp(blended, 0.0F, 255.0F));
}

// What blending with one fixed grey does to each of the 256 values.
void blend_with(Image& image, int grey, double factor) {
  std::array<std::uint8_t, 256> table{};
  for (int value = 0; value < 256; ++value)
    table[static_cast<std::size_t>(value)] = blend(grey, value, static_cast<float>(factor));
  for (std::uint8_t& pixel : image.pixels) pixel = table[pixel];
}

int mean_grey(const Image& image) {
  std::int64_t sum = 0;
  if (image.channels == 1) {
    for (const std::uint8_t pixel : image.pixels) sum += pixel;
  } else {
    for (std::size_t i = 0; i < image.pixels.size(); i += 3) sum += luma(image.pixels.data() + i);
  }
  const auto count = static_cast<double>(image.height) * image.width;
  return static_cast<int>(static_cast<double>(sum) / count + 0.5);
}

struct Hsv {
  int hue, saturation, value;  // 0..255 each
};

// The hexcone model (Smith, SIGGRAPH 1978), its parts cut to 8 bits.
Hsv to_hsv(const std::uint8_t* rgb) {
  const int r = rgb[0];
  const int g = rgb[1];
  const int b = rgb[2];
  const int most = std::max({r, g, b});
  const int least = std::min({r, g, b});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float red = static_cast<float>(most - r) / range;
  const float green = static_cast<float>(most - g) / range;
  const float blue = static_cast<float>(most - b) / range;
  float sixths = 0.0F;
  if (r == most)
    sixths = blue - green;
  else if (g == most)
    sixths = static_cast<float>(2.0 + static_cast<double>(red) - static_cast<double>(blue));
  else
    sixths = static_cast<float>(4.0 + static_cast<double>(green) - static_cast<double>(red));
  const auto turn = static_cast<float>(std::fmod(static_cast<double>(sixths) / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {std::min(255, static_cast<int>(static_cast<double>(turn) * 255.0)),
          std::min(255, static_cast<int>(static_cast<double>(saturation) * 255.0)), most};
}

void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
  const auto v = static_cast<std::uint8_t>(hsv.value);
  if (hsv.saturation == 0) {
    rgb[0] = rgb[1] = rgb[2] = v;
    return;
  }
  const double sixths = hsv.hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  // Single precision where Pillow has it, so that halves round alike.
  const auto rest = static_cast<float>(sixths - sector);
  const auto saturation = static_cast<float>(hsv.saturation / 255.0);
  const auto part = [&hsv](double share) {
    return static_cast<std::uint8_t>(std::clamp(std::round(hsv.value * share), 0.0, 255.0));
  };
  const std::uint8_t low = part(1.0 - static_cast<double>(saturation));
  const std::uint8_t falling = part(1.0 - static_cast<double>(saturation * rest));
  const std::uint8_t rising =
      part(1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(rest)));
  const std::array<std::array<std::uint8_t, 3>, 6> by_sector{{{v, rising, low},
                                                              {falling, v, low},
                                                              {low, v, rising},
                                                              {low, falling, v},
                                                              {rising, low, v},
                                                              {v, low, falling}}};
  std::copy_n(by_sector[static_cast<std::size_t>(sector % 6)].begin(), 3, rgb);
}

}  // namespace

void adjust_brightness(Image& image, double factor) { blend_with(image, 0, factor); }

void adjust_contrast(Image& image, double factor) { blend_with(image, mean_grey(image), factor); }

void adjust_saturation(Image& image, double factor) {
  if (image.channels != 3) return;
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    std::uint8_t* rgb = image.pixels.data() + i;
    const int grey = luma(rgb);
    for (int channel = 0; channel < 3; ++channel)
      rgb[channel] = blend(grey, rgb[channel], static_cast<float>(factor));
  }
}

void adjust_hue(Image& image, double factor) {
  if (image.channels != 3) return;
  const int shift = static_cast<int>(factor * 255.0);
  for (std::size_t i = 0; i < image.pixels.size(); i += 3) {
    std::uint8_t* rgb = image.pixels.data() + i;
    Hsv hsv = to_hsv(rgb);
    hsv.hue = (hsv.hue + shift) & 0xFF;
    to_rgb(hsv, rgb);
  }
}

}  // namespace trainer::data

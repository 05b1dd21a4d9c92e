// The arithmetic of colours on single pixels, the same on the CPU and in CUDA kernels (which are
// compiled without fused multiply-add, so that both give the same bits).
#pragma once

#include <cmath>
#include <cstdint>

#include "data/images/anywhere.h"

namespace trainer::data::colour {

TRAINER_ANYWHERE int clamp_byte(int value) { return value < 0 ? 0 : value > 255 ? 255 : value; }

// ITU-R 601-2 luma in 16-bit fixed point.
TRAINER_ANYWHERE int luma(const std::uint8_t* rgb) {
  return (rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16;
}

// towards = 0, value = 1; the fraction is cut off and the range clipped, as Pillow's blend does.
TRAINER_ANYWHERE std::uint8_t blend(int towards, int value, float factor) {
  const float blended = static_cast<float>(towards) + factor * static_cast<float>(value - towards);
  return static_cast<std::uint8_t>(blended < 0.0F ? 0.0F : blended > 255.0F ? 255.0F : blended);
}

TRAINER_ANYWHERE void saturate(std::uint8_t* rgb, float factor) {
  const int grey = luma(rgb);
  for (int channel = 0; channel < 3; ++channel) rgb[channel] = blend(grey, rgb[channel], factor);
}

// The mean of `count` greys that add up to `sum`, rounded.
TRAINER_ANYWHERE int mean_grey(long long sum, double count) {
  return static_cast<int>(static_cast<double>(sum) / count + 0.5);
}

struct Hsv {
  int hue, saturation, value;  // 0..255 each
};

// The hexcone model (Smith, SIGGRAPH 1978), its parts cut to 8 bits.
TRAINER_ANYWHERE Hsv to_hsv(const std::uint8_t* rgb) {
  const int r = rgb[0];
  const int g = rgb[1];
  const int b = rgb[2];
  const int most = r > g ? (r > b ? r : b) : (g > b ? g : b);
  const int least = r < g ? (r < b ? r : b) : (g < b ? g : b);
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
  const auto turn = static_cast<float>(fmod(static_cast<double>(sixths) / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {clamp_byte(static_cast<int>(static_cast<double>(turn) * 255.0)),
          clamp_byte(static_cast<int>(static_cast<double>(saturation) * 255.0)), most};
}

// A share of a value, rounded.
TRAINER_ANYWHERE std::uint8_t part_of(int value, double share) {
  const double rounded = round(value * share);
  return static_cast<std::uint8_t>(rounded < 0.0 ? 0.0 : rounded > 255.0 ? 255.0 : rounded);
}

TRAINER_ANYWHERE void to_rgb(const Hsv& hsv, std::uint8_t* rgb) {
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
  const std::uint8_t low = part_of(hsv.value, 1.0 - static_cast<double>(saturation));
  const std::uint8_t falling = part_of(hsv.value, 1.0 - static_cast<double>(saturation * rest));
  const std::uint8_t rising =
      part_of(hsv.value, 1.0 - static_cast<double>(saturation) * (1.0 - static_cast<double>(rest)));
  switch (sector % 6) {
    case 0:
      rgb[0] = v;
      rgb[1] = rising;
      rgb[2] = low;
      break;
    case 1:
      rgb[0] = falling;
      rgb[1] = v;
      rgb[2] = low;
      break;
    case 2:
      rgb[0] = low;
      rgb[1] = v;
      rgb[2] = rising;
      break;
    case 3:
      rgb[0] = low;
      rgb[1] = falling;
      rgb[2] = v;
      break;
    case 4:
      rgb[0] = rising;
      rgb[1] = low;
      rgb[2] = v;
      break;
    default:
      rgb[0] = v;
      rgb[1] = low;
      rgb[2] = falling;
      break;
  }
}

TRAINER_ANYWHERE void turn_hue(std::uint8_t* rgb, int shift) {
  Hsv hsv = to_hsv(rgb);
  hsv.hue = (hsv.hue + shift) & 0xFF;
  to_rgb(hsv, rgb);
}

// How far a factor of -0.5 to 0.5 turns the 8-bit hue.
TRAINER_ANYWHERE int hue_shift(double factor) { return static_cast<int>(factor * 255.0); }

}  // namespace trainer::data::colour

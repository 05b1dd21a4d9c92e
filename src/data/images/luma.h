// Grey of an RGB pixel. Header only: the images module uses it too and links nothing of ours.
#pragma once

#include <cstdint>

namespace trainer::data {

// ITU-R 601-2 luma in 16-bit fixed point, rounded: what Pillow's convert("L") gives.
constexpr std::uint8_t luma(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16);
}

}  // namespace trainer::data

#include "data/images/exif.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trainer::data {
namespace {

// A TIFF structure's integers, in the byte order that it declares. Reads outside it give 0.
class Tiff {
 public:
  explicit Tiff(Bytes bytes) : bytes_(bytes), little_(at(0) == 'I') {}

  std::uint32_t u16(std::size_t offset) const {
    return little_ ? at(offset) | at(offset + 1) << 8 : at(offset) << 8 | at(offset + 1);
  }
  std::uint32_t u32(std::size_t offset) const {
    return little_ ? u16(offset) | u16(offset + 2) << 16 : u16(offset) << 16 | u16(offset + 2);
  }

 private:
  std::uint32_t at(std::size_t offset) const {
    return offset < bytes_.size() ? bytes_[offset] : std::uint32_t{0};
  }

  Bytes bytes_;
  bool little_;
};

bool mirrors_rows(int orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}
bool mirrors_columns(int orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

constexpr std::array<std::uint8_t, 6> kPrefix{'E', 'x', 'i', 'f', 0, 0};

}  // namespace

int tiff_orientation(Bytes structure) {
  constexpr std::uint32_t kOrientation = 0x0112;
  const Tiff tiff(structure);
  if (tiff.u16(2) != 42) return 1;
  const std::size_t directory = tiff.u32(4);
  const std::size_t entries = tiff.u16(directory);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry >= structure.size()) break;
    if (tiff.u16(entry) != kOrientation) continue;
    const std::uint32_t value = tiff.u16(entry + 8);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

bool has_exif_prefix(Bytes segment) {
  return segment.size() >= kPrefix.size() &&
         std::equal(kPrefix.begin(), kPrefix.end(), segment.begin());
}

int exif_orientation(Bytes segment) {
  return has_exif_prefix(segment) ? tiff_orientation(segment.subspan(kPrefix.size())) : 1;
}

void apply_orientation(int orientation, Image& image) {
  if (orientation <= 1 || orientation > 8) return;
  thread_local std::vector<std::uint8_t> turned;
  const int rows = image.height;
  const int columns = image.width;
  const bool swaps = swaps_sides(orientation);
  const int out_rows = swaps ? columns : rows;
  const int out_columns = swaps ? rows : columns;
  const auto channels = static_cast<std::size_t>(image.channels);
  turned.resize(image.pixels.size());
  std::size_t to = 0;
  for (int y = 0; y < out_rows; ++y) {
    for (int x = 0; x < out_columns; ++x, to += channels) {
      int row = swaps ? x : y;
      int column = swaps ? y : x;
      if (mirrors_rows(orientation)) row = rows - 1 - row;
      if (mirrors_columns(orientation)) column = columns - 1 - column;
      const std::size_t from = (static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                                static_cast<std::size_t>(column)) *
                               channels;
      std::copy_n(image.pixels.begin() + static_cast<std::ptrdiff_t>(from), channels,
                  turned.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  image.pixels.swap(turned);
  image.height = out_rows;
  image.width = out_columns;
}

Rectangle stored_rectangle(const Rectangle& upright, int orientation, int height, int width) {
  Rectangle stored = upright;
  if (swaps_sides(orientation)) {
    stored = {upright.left, upright.top, upright.width, upright.height};
    std::swap(height, width);
  }
  if (mirrors_rows(orientation)) stored.top = height - stored.top - stored.height;
  if (mirrors_columns(orientation)) stored.left = width - stored.left - stored.width;
  return stored;
}

}  // namespace trainer::data

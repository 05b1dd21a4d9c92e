#include "data/images/geometry.h"

#include <algorithm>

namespace trainer::data {

void crop(const Image& image, int top, int left, int height, int width, Image& to) {
  const int channels = image.channels;
  to.height = height;
  to.width = width;
  to.channels = channels;
  to.pixels.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                   static_cast<std::size_t>(channels));
  const int first = std::clamp(-left, 0, width);  // columns of `to` that are inside
  const int last = std::clamp(image.width - left, first, width);
  std::uint8_t* row = to.pixels.data();
  for (int y = 0; y < height; ++y, row += width * channels) {
    const int from = top + y;
    if (from < 0 || from >= image.height) {
      std::fill_n(row, width * channels, std::uint8_t{0});
      continue;
    }
    const std::ptrdiff_t offset =
        (std::ptrdiff_t{from} * image.width + left + first) * std::ptrdiff_t{channels};
    std::fill_n(row, first * channels, std::uint8_t{0});
    std::copy_n(image.pixels.data() + offset, (last - first) * channels, row + first * channels);
    std::fill_n(row + last * channels, (width - last) * channels, std::uint8_t{0});
  }
}

void flip_horizontally(Image& image) {
  const int channels = image.channels;
  for (int y = 0; y < image.height; ++y) {
    std::uint8_t* left = image.pixels.data() + std::ptrdiff_t{y} * image.width * channels;
    std::uint8_t* right = left + (image.width - 1) * channels;
    for (; left < right; left += channels, right -= channels)
      std::swap_ranges(left, left + channels, right);
  }
}

}  // namespace trainer::data

#include "data/images/header_limits.h"

#include <limits>
#include <string>

#include "core/error.h"

namespace trainer::data {

void require_size(std::uint64_t width, std::uint64_t height, std::int64_t max_pixels) {
  const std::string size = std::to_string(width) + "x" + std::to_string(height) + " pixels";
  if (width == 0 || height == 0) throw Error(Exit::data, "the picture has " + size);
  constexpr std::uint64_t kMost = std::numeric_limits<int>::max();
  if (width > kMost || height > kMost)
    throw Error(Exit::data, "the picture has " + size + ", too many for a side");
  if (width * height > static_cast<std::uint64_t>(max_pixels))
    throw Error(Exit::data, "the picture has " + size + ", more than the limit of " +
                                std::to_string(max_pixels) + " (max_pixels)");
}

}  // namespace trainer::data

// The limits that every format's header is held to.
#pragma once

#include <cstdint>

namespace trainer::data {

// Throws Error(data) where a side is 0 or too long for an int, or the picture has more than
// `max_pixels`.
void require_size(std::uint64_t width, std::uint64_t height, std::int64_t max_pixels);

}  // namespace trainer::data

// Any bytes are either a picture or an error of Exit::data with a reason of one line; and a part of
// a JPEG whose whole data is sound equals the same part of the whole. Never a crash, nor more
// memory than the limit on pixels allows. The formats of the images module end at their headers,
// unless it is there.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "data/images/decode.h"

namespace {

using namespace trainer::data;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Numbers that depend on the input alone.
class Draws {
 public:
  explicit Draws(Bytes bytes) {
    for (const std::uint8_t byte : bytes) state_ = (state_ ^ byte) * 16777619U;
  }
  int below(int most) {
    state_ = state_ * 1664525U + 1013904223U;
    return static_cast<int>((state_ >> 8) % static_cast<unsigned>(most));
  }

 private:
  std::uint32_t state_ = 2166136261U;
};

bool equals_part(const Image& image, const Part& part, const Image& whole) {
  const std::ptrdiff_t row = std::ptrdiff_t{image.width} * image.channels;
  for (int y = 0; y < image.height; ++y) {
    const std::ptrdiff_t from =
        (std::ptrdiff_t{part.top + y} * whole.width + part.left) * whole.channels;
    const auto begin = image.pixels.begin() + y * row;
    if (!std::equal(begin, begin + row, whole.pixels.begin() + from)) return false;
  }
  return true;
}

void check(Bytes bytes) {
  Draws draws(bytes);
  DecodeOptions options;
  options.channels = draws.below(2) == 0 ? 3 : 1;
  options.max_pixels = 1 << 16;
  Decoder decoder(options);
  const ImageInfo info = decoder.open(bytes);
  require(info.height > 0 && info.width > 0, "a picture has pixels");
  const int shrink = 1 << draws.below(4);
  const std::int64_t before = jpeg_warnings();
  Image whole;
  decoder.read({0, 0, info.height, info.width}, shrink, whole);
  // What the library makes of damage may depend on what it leaves out.
  if (jpeg_warnings() != before) return;
  for (int i = 0; i < 4; ++i) {
    Rectangle region;
    region.top = draws.below(info.height);
    region.left = draws.below(info.width);
    region.height = 1 + draws.below(info.height - region.top);
    region.width = 1 + draws.below(info.width - region.left);
    Image image;
    const Part part = decoder.read(region, shrink, image);
    require(equals_part(image, part, whole), "a part equals the whole");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    check({data, size});
  } catch (const trainer::Error& error) {
    const std::string reason = error.what();
    require(error.code() == trainer::Exit::data, "a broken picture is an error of the data");
    require(!reason.empty() && reason.find('\n') == std::string::npos, "a reason is one line");
  }
  return 0;
}

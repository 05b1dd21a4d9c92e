// PNG, BMP, WebP, TIFF and PNM through OpenCV's imgcodecs. A shared object of its own, since
// imgcodecs brings a hundred libraries with it (see docs/decisions/0003-images-and-loader.md).
#include "data/images_module.h"

#include <cstdio>
#include <exception>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <stdexcept>
#include <string>

namespace {

// `value` of `Sample`'s range to 0..255, over black by `alpha` of the same range, both rounded.
template <class Sample>
unsigned char to_byte(Sample value, Sample alpha) {
  constexpr unsigned long long kMost = std::numeric_limits<Sample>::max();
  const unsigned long long product = 255ULL * value * alpha;
  return static_cast<unsigned char>((product + kMost * kMost / 2) / (kMost * kMost));
}

// OpenCV's channels are grey, BGR or BGRA.
template <class Sample>
void convert(const cv::Mat& decoded, unsigned char* rgb) {
  const int channels = decoded.channels();
  for (int y = 0; y < decoded.rows; ++y) {
    const Sample* pixel = decoded.ptr<Sample>(y);
    for (int x = 0; x < decoded.cols; ++x, pixel += channels, rgb += 3) {
      const Sample alpha = channels == 4 ? pixel[3] : std::numeric_limits<Sample>::max();
      rgb[0] = to_byte(pixel[channels == 1 ? 0 : 2], alpha);
      rgb[1] = to_byte(pixel[channels == 1 ? 0 : 1], alpha);
      rgb[2] = to_byte(pixel[0], alpha);
    }
  }
}

void decode(const unsigned char* bytes, std::size_t size, TrainerImagesAllocate allocate,
            void* context) {
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw std::runtime_error("the file is too large");
  const cv::Mat encoded(1, static_cast<int>(size), CV_8UC1, const_cast<unsigned char*>(bytes));
  const cv::Mat decoded = cv::imdecode(encoded, cv::IMREAD_UNCHANGED);
  if (decoded.empty()) throw std::runtime_error("the image data is damaged or cut short");
  const int channels = decoded.channels();
  if (channels != 1 && channels != 3 && channels != 4)
    throw std::runtime_error("images of " + std::to_string(channels) + " channels are not read");
  if (decoded.depth() != CV_8U && decoded.depth() != CV_16U)
    throw std::runtime_error("only images of 8 or 16 unsigned bits a channel are read");
  unsigned char* rgb = allocate(context, decoded.rows, decoded.cols);
  if (rgb == nullptr) throw std::runtime_error("not enough memory for its pixels");
  if (decoded.depth() == CV_8U)
    convert<unsigned char>(decoded, rgb);
  else
    convert<unsigned short>(decoded, rgb);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int trainer_images_decode_1(
    const unsigned char* bytes, std::size_t size, TrainerImagesAllocate allocate, void* context,
    char* message, std::size_t message_size) {
  try {
    decode(bytes, size, allocate, context);
    return 0;
  } catch (const std::exception& failure) {
    std::snprintf(message, message_size, "%s", failure.what());
    return 1;
  }
}

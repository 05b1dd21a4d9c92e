// PNG, BMP, WebP and TIFF through OpenCV's imgcodecs, and a writer of PNG. A shared object of its
// own, since imgcodecs brings a hundred libraries with it (see
// docs/decisions/0003-images-and-loader.md).
#include "data/images/images_module.h"

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/images/colour_math.h"

namespace {

// `value` of `Sample`'s range to 0..255, over `background` by `alpha` of the sample's range.
template <class Sample>
unsigned char over(std::uint64_t background, Sample value, Sample alpha, bool premultiplied) {
  constexpr std::uint64_t kMost = std::numeric_limits<Sample>::max();
  const std::uint64_t weight = premultiplied ? kMost : alpha;
  const std::uint64_t sum = 255 * weight * value + background * kMost * (kMost - alpha);
  constexpr std::uint64_t kSquare = kMost * kMost;
  return static_cast<unsigned char>(std::min<std::uint64_t>((sum + kSquare / 2) / kSquare, 255));
}

// The quick way of `over` for what is opaque.
unsigned char to_byte(unsigned char value) { return value; }
unsigned char to_byte(unsigned short value) {
  return static_cast<unsigned char>((255U * value + 32767U) / 65535U);
}

template <class Sample>
Sample alpha_of(const Sample* pixel, int channels, int transparent_grey) {
  if (channels == 4) return pixel[3];
  const bool transparent = channels == 1 && int{pixel[0]} == transparent_grey;
  return transparent ? Sample{0} : std::numeric_limits<Sample>::max();
}

// OpenCV's channels are grey, BGR or BGRA.
template <class Sample>
void convert(const cv::Mat& decoded, const TrainerImagesOptions& options, unsigned char* to) {
  const int channels = decoded.channels();
  const std::array<int, 3> order = channels == 1 ? std::array{0, 0, 0} : std::array{2, 1, 0};
  for (int y = 0; y < decoded.rows; ++y) {
    const Sample* pixel = decoded.ptr<Sample>(y);
    for (int x = 0; x < decoded.cols; ++x, pixel += channels) {
      const Sample alpha = alpha_of(pixel, channels, options.transparent_grey);
      const bool opaque = alpha == std::numeric_limits<Sample>::max();
      std::array<unsigned char, 3> rgb{};
      for (std::size_t c = 0; c < 3; ++c) {
        const Sample value = pixel[order[c]];
        rgb[c] = opaque ? to_byte(value)
                        : over(options.background[c], value, alpha, options.premultiplied != 0);
      }
      if (options.channels == 1)
        *to++ = static_cast<unsigned char>(trainer::data::colour::luma(rgb.data()));
      else
        to = std::copy_n(rgb.data(), 3, to);
    }
  }
}

// What libtiff complained about in this thread. OpenCV reads on where a strip is damaged and leaves
// it black; libtiff tells this second kind of handler, which OpenCV does not set.
thread_local std::string tiff_error;

extern "C" void note_tiff_error(thandle_t, const char*, const char* format,
                                std::va_list arguments) {
  if (!tiff_error.empty()) return;
  std::array<char, 256> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  tiff_error = text.data();
}

cv::Mat decoded_by_opencv(const cv::Mat& encoded) {
  static const TIFFErrorHandlerExt before = TIFFSetErrorHandlerExt(note_tiff_error);
  static_cast<void>(before);
  tiff_error.clear();
  cv::Mat decoded = cv::imdecode(encoded, cv::IMREAD_UNCHANGED);
  if (!tiff_error.empty()) throw std::runtime_error("the TIFF data is damaged: " + tiff_error);
  return decoded;
}

void decode(const unsigned char* bytes, std::size_t size, const TrainerImagesOptions& options,
            TrainerImagesAllocate allocate, void* context) {
  if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    throw std::runtime_error("the file is too large");
  const cv::Mat encoded(1, static_cast<int>(size), CV_8UC1, const_cast<unsigned char*>(bytes));
  const cv::Mat decoded = decoded_by_opencv(encoded);
  if (decoded.empty()) throw std::runtime_error("the image data is damaged or cut short");
  const int channels = decoded.channels();
  if (channels != 1 && channels != 3 && channels != 4)
    throw std::runtime_error("images of " + std::to_string(channels) + " channels are not read");
  if (decoded.depth() != CV_8U && decoded.depth() != CV_16U)
    throw std::runtime_error("only images of 8 or 16 unsigned bits a channel are read");
  unsigned char* pixels = allocate(context, decoded.rows, decoded.cols);
  if (pixels == nullptr) throw std::runtime_error("not enough memory for its pixels");
  if (decoded.depth() == CV_8U)
    convert<unsigned char>(decoded, options, pixels);
  else
    convert<unsigned short>(decoded, options, pixels);
}

constexpr int kFont = cv::FONT_HERSHEY_SIMPLEX;
constexpr double kFontScale = 0.4;

// As much of the text as fits.
std::string cut_to(const char* text, int width) {
  std::string shown = text;
  int baseline = 0;
  while (!shown.empty() && cv::getTextSize(shown, kFont, kFontScale, 1, &baseline).width > width)
    shown.pop_back();
  return shown;
}

void draw(const TrainerImagesCaption& caption, cv::Mat& picture) {
  const cv::Rect room(caption.left, caption.top, caption.width, caption.height);
  cv::Mat inside = picture(room);  // so that nothing is drawn beside it
  cv::putText(inside, cut_to(caption.text, caption.width), {0, caption.height - 5}, kFont,
              kFontScale, cv::Scalar(0, 0, 0), 1, cv::LINE_AA);
}

void write_file(const char* path, const std::vector<unsigned char>& bytes) {
  std::FILE* file = std::fopen(path, "wb");
  if (file == nullptr) throw std::runtime_error(std::strerror(errno));
  const bool whole = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (std::fclose(file) != 0 || !whole) throw std::runtime_error(std::strerror(errno));
}

void write_png(const unsigned char* rgb, int height, int width,
               const TrainerImagesCaption* captions, std::size_t count, const char* path) {
  const cv::Mat given(height, width, CV_8UC3, const_cast<unsigned char*>(rgb));
  cv::Mat picture;
  cv::cvtColor(given, picture, cv::COLOR_RGB2BGR);
  for (std::size_t i = 0; i < count; ++i) draw(captions[i], picture);
  std::vector<unsigned char> bytes;
  if (!cv::imencode(".png", picture, bytes)) throw std::runtime_error("PNG cannot be written");
  write_file(path, bytes);
}

// What the action throws, as a message and a number.
template <class Do>
int reported(char* message, std::size_t message_size, Do&& action) {
  try {
    action();
    return 0;
  } catch (const std::exception& failure) {
    std::snprintf(message, message_size, "%s", failure.what());
    return 1;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int trainer_images_decode_2(
    const unsigned char* bytes, std::size_t size, const TrainerImagesOptions* options,
    TrainerImagesAllocate allocate, void* context, char* message, std::size_t message_size) {
  return reported(message, message_size, [&] { decode(bytes, size, *options, allocate, context); });
}

extern "C" __attribute__((visibility("default"))) int trainer_images_write_png_1(
    const unsigned char* rgb, int height, int width, const TrainerImagesCaption* captions,
    std::size_t count, const char* path, char* message, std::size_t message_size) {
  return reported(message, message_size,
                  [&] { write_png(rgb, height, width, captions, count, path); });
}

#include "data/jpeg.h"

// jpeglib.h needs FILE and size_t declared before it.
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <array>
#include <atomic>
#include <csetjmp>
#include <memory>
#include <string>

#include "core/error.h"
#include "data/exif.h"

namespace trainer::data {
namespace {

constexpr std::uint64_t kMostPixels = std::uint64_t{1} << 28;

std::atomic<std::int64_t> warnings{0};

// libjpeg reports errors by a call that must not return. Note [longjmp]: the functions that set the
// jump hold no object with a destructor, and keep what they change in members.
struct ErrorManager {
  jpeg_error_mgr base{};
  std::jmp_buf jump{};
  bool ends_early = false;
  std::array<char, JMSG_LENGTH_MAX> message{};
};

ErrorManager& manager_of(j_common_ptr info) { return *reinterpret_cast<ErrorManager*>(info->err); }

extern "C" void on_error(j_common_ptr info) {
  ErrorManager& errors = manager_of(info);
  errors.base.format_message(info, errors.message.data());
  std::longjmp(errors.jump, 1);
}

extern "C" void on_message(j_common_ptr info, int level) {
  if (level >= 0) return;  // a trace
  ErrorManager& errors = manager_of(info);
  const int code = errors.base.msg_code;
  if (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER) {
    if (!errors.ends_early) errors.base.format_message(info, errors.message.data());
    errors.ends_early = true;
  } else {
    warnings.fetch_add(1, std::memory_order_relaxed);
  }
}

// One thread's decoder; reused, so that libjpeg keeps its memory.
class Decoder {
 public:
  Decoder() {
    static_assert(offsetof(ErrorManager, base) == 0, "on_error casts back from the base");
    info_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.emit_message = on_message;
    if (!create()) fail();
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  void decode(Bytes bytes, Image& image) {
    errors_.ends_early = false;
    if (!start(bytes)) fail();
    const std::uint64_t pixels = std::uint64_t{info_.output_width} * info_.output_height;
    if (pixels > kMostPixels) {
      jpeg_abort_decompress(&info_);
      throw Error(Exit::data, "the image has " + std::to_string(info_.output_width) + "x" +
                                  std::to_string(info_.output_height) + " pixels, too many");
    }
    const int orientation = read_orientation();
    image.height = static_cast<int>(info_.output_height);
    image.width = static_cast<int>(info_.output_width);
    image.channels = 3;
    image.pixels.resize(pixels * 3);
    if (info_.out_color_space == JCS_CMYK) cmyk_row_.resize(std::size_t{info_.output_width} * 4);
    pixels_ = image.pixels.data();
    if (!read_rows() || errors_.ends_early) fail();
    apply_orientation(orientation, image);
  }

 private:
  // See Note [longjmp] for these three.
  bool create() {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_create_decompress(&info_);
    return true;
  }

  bool start(Bytes bytes) {
    if (setjmp(errors_.jump) != 0) return false;
    jpeg_mem_src(&info_, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_save_markers(&info_, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&info_, TRUE);
    const bool four = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    info_.out_color_space = four ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    return true;
  }

  bool read_rows() {
    if (setjmp(errors_.jump) != 0) return false;
    while (info_.output_scanline < info_.output_height) {
      std::uint8_t* row = pixels_ + std::size_t{info_.output_scanline} * info_.output_width * 3;
      JSAMPROW target = info_.out_color_space == JCS_CMYK ? cmyk_row_.data() : row;
      jpeg_read_scanlines(&info_, &target, 1);
      if (info_.out_color_space == JCS_CMYK) cmyk_to_rgb(row);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  // Adobe stores 255 - ink, so that a colour is the product of its channel and the black channel.
  void cmyk_to_rgb(std::uint8_t* rgb) const {
    for (std::size_t x = 0; x < info_.output_width; ++x) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const unsigned product = unsigned{cmyk_row_[4 * x + channel]} * cmyk_row_[4 * x + 3];
        rgb[3 * x + channel] = static_cast<std::uint8_t>((product + 127) / 255);
      }
    }
  }

  int read_orientation() const {
    for (auto* marker = info_.marker_list; marker != nullptr; marker = marker->next) {
      if (marker->marker != JPEG_APP0 + 1) continue;
      const int orientation = exif_orientation({marker->data, marker->data_length});
      if (orientation != 1) return orientation;
    }
    return 1;
  }

  [[noreturn]] void fail() {
    const std::string message = errors_.message.data();
    jpeg_abort_decompress(&info_);
    throw Error(Exit::data, "the JPEG data is damaged or cut short: " + message);
  }

  ErrorManager errors_;
  jpeg_decompress_struct info_{};
  std::vector<std::uint8_t> cmyk_row_;
  std::uint8_t* pixels_ = nullptr;
};

}  // namespace

void decode_jpeg(Bytes bytes, Image& image) {
  thread_local Decoder decoder;
  decoder.decode(bytes, image);
}

std::int64_t jpeg_warnings() { return warnings.load(std::memory_order_relaxed); }

}  // namespace trainer::data

#include "data/images/jpeg.h"

// jpeglib.h needs FILE and size_t declared before it.
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csetjmp>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/images/colour_math.h"
#include "data/images/exif.h"
#include "data/images/header_limits.h"
#include "data/images/jpeg_entropy.h"

namespace trainer::data {
namespace {

// Scans cost time without bytes: a file of many empty ones would take hours. Encoders write about
// ten.
constexpr int kMostScans = 500;

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

extern "C" void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  ErrorManager& errors = manager_of(info);
  std::snprintf(errors.message.data(), errors.message.size(), "more than %d scans", kMostScans);
  std::longjmp(errors.jump, 1);
}

// Whether the data from the first scan on reaches an end marker. In a scan a byte 255 is followed
// by a zero or a restart marker; any other marker but the end carries its length.
bool reaches_end_marker(Bytes data) {
  // The usual case: nothing follows the marker. Within a scan no such pair of bytes can stand.
  if (data.size() >= 2 && data[data.size() - 2] == 0xFF && data.back() == JPEG_EOI) return true;
  std::size_t at = 0;
  while (at + 1 < data.size()) {
    const void* found = std::memchr(data.data() + at, 0xFF, data.size() - at - 1);
    if (found == nullptr) return false;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(found) - data.data());
    const unsigned marker = data[at + 1];
    if (marker == JPEG_EOI) return true;
    if (marker == 0xFF) {
      at += 1;  // fill bytes may precede a marker
    } else if (marker < 0xC0 || (marker >= JPEG_RST0 && marker < JPEG_EOI)) {
      at += 2;
    } else {
      if (at + 3 >= data.size()) return false;
      at += 2 + (std::size_t{data[at + 2]} << 8 | data[at + 3]);
    }
  }
  return false;
}

// In place. Adobe stores 255 - ink, so that a colour is the product of its channel and the black
// channel.
void cmyk_to_rgb(std::uint8_t* pixels, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned black = pixels[4 * i + 3];
    for (std::size_t channel = 0; channel < 3; ++channel)
      pixels[3 * i + channel] =
          static_cast<std::uint8_t>((pixels[4 * i + channel] * black + 127) / 255);
  }
}

void rgb_to_grey(const std::uint8_t* rgb, std::size_t count, std::uint8_t* grey) {
  for (std::size_t i = 0; i < count; ++i)
    grey[i] = static_cast<std::uint8_t>(colour::luma(rgb + 3 * i));
}

}  // namespace

struct JpegDecoder::State {
  explicit State(const DecodeOptions& wanted) : options(wanted) {
    static_assert(offsetof(ErrorManager, base) == 0, "on_error casts back from the base");
    info.err = jpeg_std_error(&errors.base);
    errors.base.error_exit = on_error;
    errors.base.emit_message = on_message;
    progress.progress_monitor = on_progress;
    if (!create()) fail();
    info.progress = &progress;
  }
  ~State() { jpeg_destroy_decompress(&info); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // See Note [longjmp] for these four.
  bool create() {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_create_decompress(&info);
    return true;
  }

  bool read_header() {
    if (setjmp(errors.jump) != 0) return false;
    jpeg_mem_src(&info, bytes.data(), static_cast<unsigned long>(bytes.size()));
    jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&info, TRUE);
    return true;
  }

  bool start() {
    if (setjmp(errors.jump) != 0) return false;
    info.scale_num = 1;
    info.scale_denom = static_cast<unsigned>(shrink);
    info.out_color_space = output_space();
    jpeg_start_decompress(&info);
    first_column = 0;
    skips = !may_smooth_blocks();
    if (skips) crop_columns();
    if (fast) entropy.take_over(info, data_of_scans());
    return true;
  }

  bool read_rows() {
    if (setjmp(errors.jump) != 0) return false;
    const auto top = static_cast<JDIMENSION>(window.top);
    if (skips && top > 0) jpeg_skip_scanlines(&info, top);
    while (info.output_scanline < top) read_row(row.data());
    for (int y = 0; y < window.height; ++y) {
      std::uint8_t* target = pixels + static_cast<std::size_t>(y) * row_bytes;
      if (is_direct()) {
        read_row(target);
      } else {
        read_row(row.data());
        convert_row(target);
      }
    }
    return true;
  }

  void read_row(std::uint8_t* target) { jpeg_read_scanlines(&info, &target, 1); }

  J_COLOR_SPACE output_space() const {
    const J_COLOR_SPACE stored = info.jpeg_color_space;
    if (stored == JCS_CMYK || stored == JCS_YCCK) return JCS_CMYK;
    return stored == JCS_GRAYSCALE && options.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  }

  // Where a progressive file leaves coefficients out, the library guesses them from the blocks
  // around, and those that a region leaves out are not around.
  bool may_smooth_blocks() const {
    if (info.coef_bits == nullptr) return false;
    for (int component = 0; component < info.num_components; ++component) {
      for (int k = 0; k < DCTSIZE2; ++k) {
        if (info.coef_bits[component][k] != 0) return true;
      }
    }
    return false;
  }

  // Leaves out the blocks left and right of the window. At the edges of what is decoded the
  // upsampling of colour repeats the last sample, and a range of a single colour sample is not
  // interpolated at all; so two more samples are asked for on each side. The library widens the
  // range to whole blocks.
  void crop_columns() {
    const int margin = 2 * info.max_h_samp_factor;
    const auto left = static_cast<JDIMENSION>(std::max(window.left - margin, 0));
    const JDIMENSION end = std::min(static_cast<JDIMENSION>(window.left + window.width + margin),
                                    static_cast<JDIMENSION>(info.output_width));
    first_column = left;
    JDIMENSION width = end - left;
    if (width < info.output_width && crops_exactly())
      jpeg_crop_scanline(&info, &first_column, &width);
    else
      first_column = 0;
  }

  // With larger factors a component may be scaled both by the transform and by the upsampling, and
  // the library mistakes its width.
  bool crops_exactly() const {
    return shrink == 1 || info.max_h_samp_factor * info.max_v_samp_factor <= 4;
  }

  // Whether a row of the library is a row of the image.
  bool is_direct() const {
    return info.out_color_components == options.channels &&
           info.output_width == static_cast<JDIMENSION>(window.width);
  }

  // From `row` to the window's columns and the image's channels.
  void convert_row(std::uint8_t* to) {
    const auto channels = static_cast<std::size_t>(info.out_color_components);
    const auto width = static_cast<std::size_t>(window.width);
    std::uint8_t* from =
        row.data() + (static_cast<std::size_t>(window.left) - first_column) * channels;
    if (channels == 4) cmyk_to_rgb(from, width);
    if (channels >= 3 && options.channels == 1)
      rgb_to_grey(from, width, to);
    else
      std::copy_n(from, row_bytes, to);
  }

  // Whether all of the window was read. What the fast reader of codes does not like is read again
  // by the library alone.
  bool decode() {
    fast = true;
    entropy.reset();
    if (start() && read_rows()) return true;
    if (!entropy.gave_up()) return false;
    open();
    fast = false;
    return start() && read_rows();
  }

  void open() {
    jpeg_abort_decompress(&info);
    errors.ends_early = false;
    at_header = read_header();
    if (at_header && !errors.ends_early) return;
    // Found before the size could be compared with the limit.
    if (errors.base.msg_code == JERR_IMAGE_TOO_BIG)
      require_size(info.image_width, info.image_height, options.max_pixels);
    fail();
  }

  int orientation() const {
    for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
      if (marker->marker != JPEG_APP0 + 1) continue;
      const int found = exif_orientation({marker->data, marker->data_length});
      if (found != 1) return found;
    }
    return 1;
  }

  Bytes data_of_scans() const {
    return bytes.last(std::min(info.src->bytes_in_buffer, bytes.size()));
  }

  [[noreturn]] void fail() { fail(errors.message.data()); }
  [[noreturn]] void fail(const std::string& reason) {
    jpeg_abort_decompress(&info);
    at_header = false;
    throw Error(Exit::data, "the JPEG data is damaged or cut short: " + reason);
  }

  DecodeOptions options;
  ErrorManager errors;
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct info{};
  JpegEntropy entropy;
  Bytes bytes;
  bool at_header = false;  // open, and nothing read since

  // Of the read in progress.
  Rectangle window;
  int shrink = 1;
  bool fast = true;             // see Note [Entropy decoding]
  bool skips = false;           // rows and columns outside the window
  JDIMENSION first_column = 0;  // of the library's rows, in the reduced picture
  std::size_t row_bytes = 0;    // of the image
  std::uint8_t* pixels = nullptr;
  std::vector<std::uint8_t> row;
};

JpegDecoder::JpegDecoder(const DecodeOptions& options) : state_(std::make_unique<State>(options)) {}
JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;

ImageInfo JpegDecoder::open(Bytes bytes) {
  State& state = *state_;
  state.bytes = bytes;
  state.open();
  require_size(state.info.image_width, state.info.image_height, state.options.max_pixels);
  ImageInfo info;
  info.format = Format::jpeg;
  info.height = static_cast<int>(state.info.image_height);
  info.width = static_cast<int>(state.info.image_width);
  info.orientation = state.orientation();
  info.components = state.info.num_components;
  info.bits = state.info.data_precision;
  info.progressive = state.info.progressive_mode != FALSE;
  return info;
}

void JpegDecoder::read(const Rectangle& window, int shrink, Image& image) {
  State& state = *state_;
  if (!state.at_header) state.open();
  if (!reaches_end_marker(state.data_of_scans())) state.fail("it has no end marker");
  state.window = window;
  state.shrink = shrink;
  image.height = window.height;
  image.width = window.width;
  image.channels = state.options.channels;
  state.row_bytes =
      static_cast<std::size_t>(window.width) * static_cast<std::size_t>(image.channels);
  image.pixels.resize(static_cast<std::size_t>(window.height) * state.row_bytes);
  state.pixels = image.pixels.data();
  state.row.resize(std::size_t{state.info.image_width} * 4);
  state.at_header = false;
  if (!state.decode() || state.errors.ends_early) state.fail();
  jpeg_abort_decompress(&state.info);
}

std::int64_t jpeg_warnings() { return warnings.load(std::memory_order_relaxed); }

}  // namespace trainer::data

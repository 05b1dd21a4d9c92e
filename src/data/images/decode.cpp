#include "data/images/decode.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <string>
#include <string_view>

#include "core/error.h"
#include "data/images/exif.h"
#include "data/images/header_formats.h"
#include "data/images/header_limits.h"
#include "data/images/jpeg.h"
#include "data/images/module_loader.h"
#include "data/images/pnm.h"

namespace trainer::data {
namespace {

bool starts_with(Bytes bytes, std::string_view magic, std::size_t offset = 0) {
  return bytes.size() >= offset + magic.size() &&
         std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

Format known_format(Bytes bytes) {
  if (bytes.empty()) throw Error(Exit::data, "the file is empty");
  const Format format = format_of(bytes);
  if (format == Format::unknown)
    throw Error(Exit::data,
                "the content is no image of a known format (JPEG, PNG, BMP, WebP, TIFF, PNM)");
  return format;
}

FileHeader file_header(Format format, Bytes bytes) {
  switch (format) {
    case Format::png:
      return png_header(bytes);
    case Format::bmp:
      return bmp_header(bytes);
    case Format::webp:
      return webp_header(bytes);
    case Format::tiff:
      return tiff_header(bytes);
    default:
      return pnm_header(bytes);
  }
}

void require_whole(Format format, Bytes bytes) {
  switch (format) {
    case Format::png:
      return require_whole_png(bytes);
    case Format::bmp:
      return require_whole_bmp(bytes);
    case Format::webp:
      return require_whole_webp(bytes);
    case Format::tiff:
      return require_whole_tiff(bytes);
    default:
      return;
  }
}

ImageInfo info_of(Format format, const FileHeader& header, std::int64_t max_pixels) {
  require_size(header.width, header.height, max_pixels);
  ImageInfo info;
  info.format = format;
  info.height = static_cast<int>(header.height);
  info.width = static_cast<int>(header.width);
  info.orientation = header.orientation;
  info.components = header.components;
  info.bits = header.bits;
  return info;
}

// From the stored picture to the upright one.
void turn_upright(ImageInfo& info, const DecodeOptions& options) {
  if (!options.exif_orientation && info.format != Format::tiff) info.orientation = 1;
  if (swaps_sides(info.orientation)) std::swap(info.height, info.width);
}

TrainerImagesOptions module_options(const FileHeader& header, const DecodeOptions& options) {
  TrainerImagesOptions wanted{};
  wanted.channels = options.channels;
  std::copy(options.background.begin(), options.background.end(), wanted.background);
  wanted.premultiplied = header.premultiplied ? 1 : 0;
  wanted.transparent_grey = header.transparent_grey;
  // The decoder spreads samples of fewer bits over a byte.
  if (header.transparent_grey >= 0 && header.bits < 8)
    wanted.transparent_grey = header.transparent_grey * 255 / ((1 << header.bits) - 1);
  return wanted;
}

// Where the columns or rows from `start` on lie in a picture reduced by `shrink`.
void reduce(int& start, int& length, int whole, int shrink, bool mirrored) {
  const int end = std::min(reduced_size(start + length, shrink) + (mirrored ? 1 : 0), whole);
  start /= shrink;
  length = end - start;
}

// The rectangle of the reduced upright picture that covers `region`. The grid of reduced pixels
// begins at the stored picture's edge: where the orientation mirrors, it lies by up to a pixel
// beside a grid from the upright picture's edge, and one more row and column covers that.
Rectangle reduced_region(const Rectangle& region, const ImageInfo& info, const Part& part) {
  Rectangle reduced = region;
  const bool mirrored = part.shrink > 1 && info.orientation != 1;
  reduce(reduced.top, reduced.height, part.height, part.shrink, mirrored);
  reduce(reduced.left, reduced.width, part.width, part.shrink, mirrored);
  return reduced;
}

[[maybe_unused]] bool lies_within(const Rectangle& region, const ImageInfo& info) {
  return region.top >= 0 && region.left >= 0 && region.height > 0 && region.width > 0 &&
         region.height <= info.height - region.top && region.width <= info.width - region.left;
}

}  // namespace

Format format_of(Bytes bytes) {
  if (starts_with(bytes, "\xFF\xD8\xFF")) return Format::jpeg;
  if (starts_with(bytes, "\x89PNG\r\n\x1A\n")) return Format::png;
  if (starts_with(bytes, "RIFF") && starts_with(bytes, "WEBP", 8)) return Format::webp;
  if (starts_with(bytes, {"II*\0", 4}) || starts_with(bytes, {"MM\0*", 4})) return Format::tiff;
  if (starts_with(bytes, "BM")) return Format::bmp;
  if (bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6') return Format::pnm;
  return Format::unknown;
}

const char* name_of(Format format) {
  switch (format) {
    case Format::jpeg:
      return "JPEG";
    case Format::png:
      return "PNG";
    case Format::bmp:
      return "BMP";
    case Format::webp:
      return "WebP";
    case Format::tiff:
      return "TIFF";
    case Format::pnm:
      return "PNM";
    case Format::unknown:
      break;
  }
  return "unknown";
}

struct Decoder::Impl {
  explicit Impl(const DecodeOptions& wanted) : options(wanted), jpeg(wanted) {}

  void read_jpeg(const Rectangle& region, Part& part, Image& image) {
    const Rectangle upright = reduced_region(region, info, part);
    jpeg.read(stored_rectangle(upright, info.orientation, part.height, part.width), part.shrink,
              image);
    apply_orientation(info.orientation, image);
    part.top = upright.top;
    part.left = upright.left;
  }

  void read_whole(Image& image) {
    require_whole(info.format, bytes);
    if (info.format == Format::pnm) return decode_pnm(bytes, options.channels, image);
    decode_by_module(bytes, module_options(header, options), image);
    // OpenCV has applied a TIFF's.
    if (info.format != Format::tiff) apply_orientation(info.orientation, image);
    if (image.height != info.height || image.width != info.width)
      throw Error(Exit::data, "the image data is of another size than its header says");
  }

  DecodeOptions options;
  JpegDecoder jpeg;
  Bytes bytes;
  FileHeader header;  // of a format other than JPEG
  ImageInfo info;
};

Decoder::Decoder(const DecodeOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Decoder::~Decoder() = default;
Decoder::Decoder(Decoder&&) noexcept = default;

const ImageInfo& Decoder::open(Bytes bytes) {
  Impl& impl = *impl_;
  impl.bytes = bytes;
  const Format format = known_format(bytes);
  if (format == Format::jpeg) {
    impl.info = impl.jpeg.open(bytes);
  } else {
    impl.header = file_header(format, bytes);
    impl.info = info_of(format, impl.header, impl.options.max_pixels);
  }
  turn_upright(impl.info, impl.options);
  return impl.info;
}

Part Decoder::read(const Rectangle& region, int shrink, Image& image) {
  Impl& impl = *impl_;
  assert(shrink == 1 || shrink == 2 || shrink == 4 || shrink == 8);
  assert(lies_within(region, impl.info));
  const bool reduces = impl.info.format == Format::jpeg;
  Part part;
  part.shrink = reduces ? shrink : 1;
  part.height = reduced_size(impl.info.height, part.shrink);
  part.width = reduced_size(impl.info.width, part.shrink);
  if (reduces)
    impl.read_jpeg(region, part, image);
  else
    impl.read_whole(image);
  return part;
}

ImageInfo read_header(Bytes bytes, const DecodeOptions& options) {
  return Decoder(options).open(bytes);
}

void decode_image(Bytes bytes, const DecodeOptions& options, Image& image) {
  Decoder decoder(options);
  const ImageInfo& info = decoder.open(bytes);
  decoder.read({0, 0, info.height, info.width}, 1, image);
}

}  // namespace trainer::data

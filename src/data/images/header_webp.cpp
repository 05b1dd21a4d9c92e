#include <string_view>

#include "data/images/exif.h"
#include "data/images/header_formats.h"
#include "data/images/header_reader.h"

namespace trainer::data {
namespace {

constexpr const char* kFormat = "WebP";
constexpr std::size_t kFirstChunk = 12;
constexpr std::size_t kFirstData = kFirstChunk + 8;

std::string_view type_at(const HeaderReader& file, std::size_t offset) {
  if (!file.holds(offset, 4)) file.damaged("it ends in the header");
  return {reinterpret_cast<const char*>(file.bytes().data() + offset), 4};
}

int orientation_of(const HeaderReader& file) {
  std::size_t at = kFirstChunk;
  while (file.holds(at, 8)) {
    const std::size_t length = file.u32(at + 4);
    if (!file.holds(at + 8, length)) break;
    if (type_at(file, at) == "EXIF") {
      const Bytes block = file.bytes().subspan(at + 8, length);
      // Some writers keep the prefix that the block has in a JPEG.
      return has_exif_prefix(block) ? exif_orientation(block) : tiff_orientation(block);
    }
    at += 8 + length + length % 2;
  }
  return 1;
}

FileHeader extended_header(const HeaderReader& file) {
  constexpr std::uint32_t kAnimation = 0x02;
  constexpr std::uint32_t kExif = 0x08;
  constexpr std::uint32_t kAlpha = 0x10;
  const std::uint32_t flags = file.u8(kFirstData);
  if ((flags & kAnimation) != 0)
    throw Error(Exit::data,
                "an animated WebP, which is not read; save the frames that you want as files of "
                "their own");
  FileHeader header;
  header.width = file.u24(kFirstData + 4) + 1;
  header.height = file.u24(kFirstData + 7) + 1;
  header.components = (flags & kAlpha) != 0 ? 4 : 3;
  if ((flags & kExif) != 0) header.orientation = orientation_of(file);
  return header;
}

FileHeader lossless_header(const HeaderReader& file) {
  if (file.u8(kFirstData) != 0x2F) file.damaged("a lossless picture without its signature");
  const std::uint32_t packed = file.u32(kFirstData + 1);
  FileHeader header;
  header.width = (packed & 0x3FFF) + 1;
  header.height = (packed >> 14 & 0x3FFF) + 1;
  header.components = (packed >> 28 & 1) != 0 ? 4 : 3;
  return header;
}

FileHeader lossy_header(const HeaderReader& file) {
  if (file.u24(kFirstData + 3) != 0x2A019D) file.damaged("a frame without its start code");
  FileHeader header;
  header.width = file.u16(kFirstData + 6) & 0x3FFF;
  header.height = file.u16(kFirstData + 8) & 0x3FFF;
  return header;
}

}  // namespace

FileHeader webp_header(Bytes bytes) {
  const HeaderReader file(bytes, true, kFormat);
  const std::string_view type = type_at(file, kFirstChunk);
  if (type == "VP8X") return extended_header(file);
  if (type == "VP8L") return lossless_header(file);
  if (type == "VP8 ") return lossy_header(file);
  file.damaged("its first chunk is of no known type");
}

void require_whole_webp(Bytes bytes) {
  const HeaderReader file(bytes, true, kFormat);
  if (!file.holds(8, file.u32(4))) file.damaged("it is shorter than its header says");
}

}  // namespace trainer::data

#include <string_view>

#include "data/images/exif.h"
#include "data/images/header_formats.h"
#include "data/images/header_reader.h"

namespace trainer::data {
namespace {

constexpr const char* kFormat = "PNG";
constexpr std::size_t kSignature = 8;
constexpr std::size_t kChunkFrame = 12;  // length, type and checksum

enum ColourType { kGrey = 0, kRgb = 2, kPalette = 3, kGreyAlpha = 4, kRgbAlpha = 6 };

struct Chunk {
  std::string_view type;
  std::size_t data = 0;  // offset
  std::size_t length = 0;
};

// Calls `visit` for every chunk that lies within the file, up to IEND; whether there was one.
template <class Visit>
bool visit_chunks(const HeaderReader& file, Visit&& visit) {
  std::size_t at = kSignature;
  while (file.holds(at, kChunkFrame)) {
    Chunk chunk;
    chunk.length = file.u32(at);
    if (!file.holds(at + kChunkFrame, chunk.length)) return false;
    chunk.type = {reinterpret_cast<const char*>(file.bytes().data() + at + 4), 4};
    chunk.data = at + 8;
    visit(chunk);
    if (chunk.type == "IEND") return true;
    at += kChunkFrame + chunk.length;
  }
  return false;
}

int components_of(const HeaderReader& file, std::uint32_t colour_type) {
  switch (colour_type) {
    case kGrey:
      return 1;
    case kGreyAlpha:
      return 2;
    case kRgb:
    case kPalette:
      return 3;
    case kRgbAlpha:
      return 4;
    default:
      file.damaged("colour type " + std::to_string(colour_type));
  }
}

}  // namespace

FileHeader png_header(Bytes bytes) {
  constexpr std::size_t kBody = kSignature + 8;
  constexpr std::uint32_t kIhdr = 0x49484452;
  const HeaderReader file(bytes, false, kFormat);
  if (file.u32(kSignature) != 13 || file.u32(kSignature + 4) != kIhdr)
    file.damaged("it does not begin with IHDR");
  FileHeader header;
  header.width = file.u32(kBody);
  header.height = file.u32(kBody + 4);
  const std::uint32_t bits = file.u8(kBody + 8);
  const std::uint32_t colour_type = file.u8(kBody + 9);
  if (bits != 1 && bits != 2 && bits != 4 && bits != 8 && bits != 16)
    file.damaged("samples of " + std::to_string(bits) + " bits");
  header.components = components_of(file, colour_type);
  header.bits = colour_type == kPalette ? 8 : static_cast<int>(bits);
  visit_chunks(file, [&](const Chunk& chunk) {
    if (chunk.type == "eXIf")
      header.orientation = tiff_orientation(bytes.subspan(chunk.data, chunk.length));
    if (chunk.type != "tRNS") return;
    if (colour_type == kGrey && chunk.length >= 2) {
      // The bits above the sample's are to be ignored.
      header.transparent_grey = static_cast<int>(file.u16(chunk.data) & ((1U << bits) - 1));
      header.components = 2;
    }
    if (colour_type == kRgb || colour_type == kPalette) header.components = 4;
  });
  return header;
}

void require_whole_png(Bytes bytes) {
  const HeaderReader file(bytes, false, kFormat);
  if (!visit_chunks(file, [](const Chunk&) {})) file.damaged("it has no end chunk");
}

}  // namespace trainer::data

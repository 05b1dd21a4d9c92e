#include "data/images/header_formats.h"
#include "data/images/header_reader.h"

namespace trainer::data {
namespace {

constexpr std::size_t kFileHeader = 14;
constexpr std::uint32_t kUncompressed = 0;
constexpr std::uint32_t kBitFields = 3;

struct Bmp {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t bits = 0;  // of a pixel
  std::uint32_t compression = kUncompressed;
};

// A negative height says that the rows go from top to bottom.
std::uint32_t magnitude(std::uint32_t value) { return value >> 31 != 0 ? 0 - value : value; }

Bmp parse(const HeaderReader& file) {
  constexpr std::uint32_t kOldHeader = 12;
  constexpr std::uint32_t kHeader = 40;
  Bmp bmp;
  const std::uint32_t size = file.u32(kFileHeader);
  if (size == kOldHeader) {
    bmp.width = file.u16(kFileHeader + 4);
    bmp.height = file.u16(kFileHeader + 6);
    bmp.bits = file.u16(kFileHeader + 10);
    return bmp;
  }
  if (size < kHeader) file.damaged("a header of " + std::to_string(size) + " bytes");
  bmp.width = magnitude(file.u32(kFileHeader + 4));
  bmp.height = magnitude(file.u32(kFileHeader + 8));
  bmp.bits = file.u16(kFileHeader + 14);
  bmp.compression = file.u32(kFileHeader + 16);
  return bmp;
}

}  // namespace

FileHeader bmp_header(Bytes bytes) {
  const Bmp bmp = parse(HeaderReader(bytes, true, "BMP"));
  FileHeader header;
  header.width = bmp.width;
  header.height = bmp.height;
  return header;
}

void require_whole_bmp(Bytes bytes) {
  const HeaderReader file(bytes, true, "BMP");
  const Bmp bmp = parse(file);
  std::uint64_t offset = file.u32(10);
  std::uint64_t length = 0;
  if (bmp.compression == kUncompressed || bmp.compression == kBitFields) {
    // Rows are padded to four bytes.
    const std::uint64_t row = (std::uint64_t{bmp.width} * bmp.bits + 31) / 32 * 4;
    length = row > bytes.size() ? row : row * bmp.height;
  } else {
    offset = file.u32(2);  // the file's size
  }
  if (!file.holds(offset, length)) file.damaged("it ends before its last pixel");
}

}  // namespace trainer::data

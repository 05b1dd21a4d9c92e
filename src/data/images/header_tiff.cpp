#include <map>

#include "data/images/header_formats.h"
#include "data/images/header_reader.h"

namespace trainer::data {
namespace {

enum Tag : std::uint32_t {
  kImageWidth = 256,
  kImageLength = 257,
  kBitsPerSample = 258,
  kPhotometric = 262,
  kStripOffsets = 273,
  kOrientation = 274,
  kSamplesPerPixel = 277,
  kStripByteCounts = 279,
  kTileOffsets = 324,
  kTileByteCounts = 325,
};

// A field's values: unsigned integers of 1, 2 or 4 bytes.
struct Field {
  std::size_t at = 0;  // of the first value
  std::uint32_t bytes_each = 0;
  std::uint32_t count = 0;
};

// The first image directory.
class Directory {
 public:
  explicit Directory(Bytes bytes) : file_(bytes, bytes[0] == 'I', "TIFF") {
    const std::size_t start = file_.u32(4);
    const std::uint32_t entries = file_.u16(start);
    if (!file_.holds(start + 2, std::uint64_t{12} * entries))
      file_.damaged("it ends in its directory");
    for (std::size_t i = 0; i < entries; ++i) add(start + 2 + 12 * i);
  }

  const HeaderReader& file() const { return file_; }

  std::uint32_t count(Tag tag) const {
    const auto found = fields_.find(tag);
    return found == fields_.end() ? 0 : found->second.count;
  }

  std::uint32_t value(Tag tag, std::uint32_t index, std::uint32_t missing) const {
    const auto found = fields_.find(tag);
    if (found == fields_.end() || index >= found->second.count) return missing;
    const Field& field = found->second;
    const std::size_t at = field.at + std::size_t{index} * field.bytes_each;
    if (field.bytes_each == 1) return file_.u8(at);
    return field.bytes_each == 2 ? file_.u16(at) : file_.u32(at);
  }

 private:
  void add(std::size_t entry) {
    Field field;
    const std::uint32_t type = file_.u16(entry + 2);
    field.bytes_each = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
    if (field.bytes_each == 0) return;
    field.count = file_.u32(entry + 4);
    const std::uint64_t length = std::uint64_t{field.bytes_each} * field.count;
    field.at = length <= 4 ? entry + 8 : file_.u32(entry + 8);
    const std::uint32_t tag = file_.u16(entry);
    // Only fields that are used have to lie in the file.
    if (!file_.holds(field.at, length)) field.count = 0;
    // Which of two the decoder would believe is not ours to guess.
    if (!fields_.emplace(tag, field).second && (tag == kImageWidth || tag == kImageLength))
      file_.damaged("two sizes");
  }

  HeaderReader file_;
  std::map<std::uint32_t, Field> fields_;
};

void require_pieces(const Directory& directory, Tag offsets, Tag lengths) {
  for (std::uint32_t i = 0; i < directory.count(offsets); ++i) {
    if (!directory.file().holds(directory.value(offsets, i, 0), directory.value(lengths, i, 0)))
      directory.file().damaged("it ends before its last pixel");
  }
}

}  // namespace

FileHeader tiff_header(Bytes bytes) {
  constexpr std::uint32_t kPalette = 3;
  const Directory directory(bytes);
  FileHeader header;
  header.width = directory.value(kImageWidth, 0, 0);
  header.height = directory.value(kImageLength, 0, 0);
  const std::uint32_t bits = directory.value(kBitsPerSample, 0, 1);
  const std::uint32_t samples = directory.value(kSamplesPerPixel, 0, 1);
  if (bits == 0 || bits > 64 || samples == 0 || samples > 65535)
    directory.file().damaged(std::to_string(samples) + " samples of " + std::to_string(bits) +
                             " bits");
  header.bits = static_cast<int>(bits);
  const bool palette = directory.value(kPhotometric, 0, 1) == kPalette;
  header.components = palette ? 3 : static_cast<int>(samples);
  if (palette) header.bits = 8;
  const std::uint32_t orientation = directory.value(kOrientation, 0, 1);
  if (orientation >= 1 && orientation <= 8) header.orientation = static_cast<int>(orientation);
  if (samples == 2)
    throw Error(Exit::data, "a grey TIFF with alpha, which is not read; save it as a PNG");
  // libtiff multiplies 8-bit colours by their alpha.
  header.premultiplied = samples == 4 && header.bits == 8;
  return header;
}

void require_whole_tiff(Bytes bytes) {
  const Directory directory(bytes);
  if (directory.count(kStripOffsets) == 0 && directory.count(kTileOffsets) == 0)
    directory.file().damaged("it holds no pixels");
  require_pieces(directory, kStripOffsets, kStripByteCounts);
  require_pieces(directory, kTileOffsets, kTileByteCounts);
}

}  // namespace trainer::data

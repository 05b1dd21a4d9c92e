#include "data/gpu/jpeg_layout.h"

#include <array>
#include <cstring>

namespace trainer::data {
namespace {

// Marker codes of ITU-T T.81, table B.1.
constexpr std::uint8_t kSof0 = 0xC0;
constexpr std::uint8_t kSof15 = 0xCF;
constexpr std::uint8_t kHuffmanTables = 0xC4;
constexpr std::uint8_t kEoi = 0xD9;
constexpr std::uint8_t kSos = 0xDA;
constexpr std::uint8_t kApp0 = 0xE0;
constexpr std::uint8_t kApp14 = 0xEE;

struct Frame {
  JpegLayout layout;
  int components = 0;
  std::array<std::uint8_t, 3> ids{};
};

// What tells the colour space (the rules of libjpeg's default_decompress_parms).
struct Colours {
  bool jfif = false;
  int adobe_transform = -1;
  bool is_ycc(const std::array<std::uint8_t, 3>& ids) const {
    if (jfif) return true;
    if (adobe_transform >= 0) return adobe_transform == 1;
    return !(ids[0] == 'R' && ids[1] == 'G' && ids[2] == 'B');
  }
};

// A start-of-frame segment's content.
std::optional<Frame> read_frame(Bytes segment) {
  if (segment.size() < 6 || segment[0] != 8) return std::nullopt;
  Frame frame;
  JpegLayout& layout = frame.layout;
  layout.height = segment[1] << 8 | segment[2];
  layout.width = segment[3] << 8 | segment[4];
  frame.components = segment[5];
  if (layout.height == 0 || layout.width == 0) return std::nullopt;
  if (frame.components != 1 && frame.components != 3) return std::nullopt;
  if (segment.size() < 6 + 3 * static_cast<std::size_t>(frame.components)) return std::nullopt;
  std::array<int, 3> across{};
  std::array<int, 3> down{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(frame.components); ++i) {
    frame.ids[i] = segment[6 + 3 * i];
    across[i] = segment[7 + 3 * i] >> 4;
    down[i] = segment[7 + 3 * i] & 15;
  }
  // One component alone is never subsampled, whatever its factors.
  if (frame.components == 1) return frame;
  if (across[1] != 1 || across[2] != 1 || down[1] != 1 || down[2] != 1) return std::nullopt;
  layout.horizontal = across[0];
  layout.vertical = down[0];
  if (layout.horizontal < 1 || layout.horizontal > 2 || layout.vertical < 1 || layout.vertical > 2)
    return std::nullopt;
  return frame;
}

bool starts_with(Bytes segment, const char* text, std::size_t size) {
  return segment.size() >= size && std::memcmp(segment.data(), text, size) == 0;
}

void read_application(std::uint8_t marker, Bytes segment, Colours& colours) {
  if (marker == kApp0 && starts_with(segment, "JFIF", 5)) colours.jfif = true;
  if (marker == kApp14 && segment.size() >= 12 && starts_with(segment, "Adobe", 5))
    colours.adobe_transform = segment[11];
}

// Whether the file ends with the end-of-image marker; zeros may follow it.
bool ends_whole(Bytes bytes) {
  std::size_t end = bytes.size();
  while (end > 2 && bytes[end - 1] == 0) --end;
  return end >= 2 && bytes[end - 2] == 0xFF && bytes[end - 1] == kEoi;
}

}  // namespace

std::optional<JpegLayout> hardware_layout(Bytes bytes) {
  if (bytes.size() < 4 || bytes[0] != 0xFF || bytes[1] != 0xD8 || !ends_whole(bytes))
    return std::nullopt;
  std::optional<Frame> frame;
  Colours colours;
  std::size_t at = 2;
  while (at + 4 <= bytes.size()) {
    if (bytes[at] != 0xFF) return std::nullopt;
    const std::uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    const std::size_t length = static_cast<std::size_t>(bytes[at + 2]) << 8 | bytes[at + 3];
    if (length < 2 || at + 2 + length > bytes.size()) return std::nullopt;
    const Bytes segment = bytes.subspan(at + 4, length - 2);
    if (marker == kSof0) {
      if (frame) return std::nullopt;
      frame = read_frame(segment);
      if (!frame) return std::nullopt;
    } else if (marker > kSof0 && marker <= kSof15 && marker != kHuffmanTables) {
      return std::nullopt;  // another process than baseline
    } else if (marker == kSos) {
      const bool one_scan = frame && !segment.empty() && segment[0] == frame->components;
      if (!one_scan) return std::nullopt;
      if (frame->components == 3 && !colours.is_ycc(frame->ids)) return std::nullopt;
      return frame->layout;
    } else {
      read_application(marker, segment, colours);
    }
    at += 2 + length;
  }
  return std::nullopt;
}

}  // namespace trainer::data

#include "monitor/event_file.h"

#include <array>
#include <cstring>

#include "monitor/format.h"

namespace trainer::monitor {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  constexpr std::uint32_t kReversedPolynomial = 0x82F63B78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kCrcTable = make_crc_table();

// A checksum of data that holds checksums is weak, so the format rotates and shifts them.
std::uint32_t masked_crc(std::string_view data) {
  constexpr std::uint32_t kDelta = 0xA282EAD8;
  const std::uint32_t crc = crc32c(data);
  return ((crc >> 15) | (crc << 17)) + kDelta;
}

template <class T>
std::string little_endian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <class T>
T from_little_endian(std::string_view bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

// The wire format of protocol buffers: a key is field number × 8 + wire type.
enum Wire : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(unsigned field, Wire wire) { return varint(field * 8 + wire); }

std::string bytes_field(unsigned field, std::string_view bytes) {
  return (key(field, kBytes) + varint(bytes.size())).append(bytes);
}

std::optional<std::uint64_t> read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Event's and Summary's fields.
constexpr unsigned kWallTime = 1;
constexpr unsigned kStep = 2;
constexpr unsigned kFileVersion = 3;
constexpr unsigned kSummary = 5;
constexpr unsigned kSummaryValue = 1;
constexpr unsigned kValueTag = 1;
constexpr unsigned kValueSimple = 2;

std::string wall_time_field(double wall_time) {
  return key(kWallTime, kFixed64) + little_endian(wall_time);
}

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kCrcBytes = 4;

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : data)
    crc = kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ crc >> 8;
  return crc ^ 0xFFFFFFFF;
}

std::string framed(std::string_view data) {
  const std::string length = little_endian(static_cast<std::uint64_t>(data.size()));
  return (length + little_endian(masked_crc(length))).append(data) +
         little_endian(masked_crc(data));
}

std::optional<std::string_view> next_record(std::string_view& bytes) {
  constexpr std::size_t kFrame = kLengthBytes + kCrcBytes + kCrcBytes;
  if (bytes.size() < kFrame) return std::nullopt;
  const std::string_view length_bytes = bytes.substr(0, kLengthBytes);
  const auto length = from_little_endian<std::uint64_t>(length_bytes);
  if (from_little_endian<std::uint32_t>(bytes.substr(kLengthBytes)) != masked_crc(length_bytes) ||
      length > bytes.size() - kFrame)
    return std::nullopt;
  const std::string_view data = bytes.substr(kLengthBytes + kCrcBytes, length);
  if (from_little_endian<std::uint32_t>(bytes.substr(kLengthBytes + kCrcBytes + length)) !=
      masked_crc(data))
    return std::nullopt;
  bytes.remove_prefix(kFrame + length);
  return data;
}

std::string version_event(double wall_time) {
  return wall_time_field(wall_time) + bytes_field(kFileVersion, "brain.Event:2");
}

std::string scalar_event(double wall_time, const Record& record) {
  std::string event = wall_time_field(wall_time);
  std::string summary;
  for (const auto& [name, value] : record.fields) {
    if (name == "step") {
      event += key(kStep, kVarint) + varint(static_cast<std::uint64_t>(as_double(value)));
      continue;
    }
    const std::string scalar =
        key(kValueSimple, kFixed32) + little_endian(static_cast<float>(as_double(value)));
    summary += bytes_field(kSummaryValue, bytes_field(kValueTag, name) + scalar);
  }
  return event + bytes_field(kSummary, summary);
}

std::optional<std::int64_t> event_step(std::string_view event) {
  std::int64_t step = 0;
  while (!event.empty()) {
    const auto field_key = read_varint(event);
    if (!field_key) return std::nullopt;
    std::uint64_t skip = 0;
    switch (*field_key % 8) {
      case kVarint: {
        const auto value = read_varint(event);
        if (!value) return std::nullopt;
        if (*field_key / 8 == kStep) step = static_cast<std::int64_t>(*value);
        break;
      }
      case kFixed64:
        skip = 8;
        break;
      case kFixed32:
        skip = 4;
        break;
      case kBytes: {
        const auto length = read_varint(event);
        if (!length) return std::nullopt;
        skip = *length;
        break;
      }
      default:
        return std::nullopt;
    }
    if (skip > event.size()) return std::nullopt;
    event.remove_prefix(skip);
  }
  return step;
}

}  // namespace trainer::monitor

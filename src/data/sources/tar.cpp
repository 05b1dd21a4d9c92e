#include "data/sources/tar.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cstdio>
#include <optional>

#include "core/error.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

constexpr std::size_t kBlock = 512;

struct Field {
  std::size_t begin, size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUser{108, 8}, kGroup{116, 8}, kSize{124, 12},
    kTime{136, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 6}, kVersion{263, 2},
    kPrefix{345, 155};

[[noreturn]] void fail(const std::string& reason) { throw Error(Exit::data, reason); }

std::string_view text_of(Bytes block, Field field) {
  const std::string_view text = as_text(block.subspan(field.begin, field.size));
  return text.substr(0, text.find('\0'));
}

// Octal digits, or GNU's binary form for what needs more of them. nullopt where it is neither.
std::optional<std::uint64_t> number_of(Bytes block, Field field) {
  const Bytes bytes = block.subspan(field.begin, field.size);
  if (bytes[0] == 0x80) {
    std::uint64_t value = 0;
    for (const std::uint8_t byte : bytes.subspan(1)) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | byte;
    }
    return value;
  }
  std::string_view digits = text_of(block, field);
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find(' '));
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value, 8);
  if (digits.empty()) return 0;
  return result.ec == std::errc() && result.ptr == end ? std::optional(value) : std::nullopt;
}

// The sum of a header's bytes, with spaces in place of the sum itself.
std::uint64_t checksum_of(Bytes block) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.size;
    sum += own ? std::uint8_t{' '} : block[i];
  }
  return sum;
}

std::string name_of(Bytes block) {
  const std::string_view prefix = text_of(block, kPrefix);
  const bool posix =
      as_text(block.subspan(kMagic.begin, kMagic.size)) == std::string_view("ustar\0", 6);
  std::string name(text_of(block, kName));
  if (posix && !prefix.empty()) name = std::string(prefix) + "/" + name;
  return name;
}

// What the records before a member say about it.
struct Extended {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

// "<length> <key>=<value>\n" one after another, the length that of the whole record.
void read_pax(std::string_view records, Extended& extended) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto result = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(result.ptr - records.data());
    if (result.ec != std::errc() || length > records.size() || length < digits + 2 ||
        records[digits] != ' ' || records[length - 1] != '\n')
      fail("an extended header is damaged");
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const auto equals = record.find('=');
    if (equals == std::string_view::npos) fail("an extended header is damaged");
    const std::string_view value = record.substr(equals + 1);
    if (record.starts_with("path=")) extended.name = std::string(value);
    if (record.starts_with("size=")) {
      std::uint64_t size = 0;
      const char* end = value.data() + value.size();
      const auto parsed = std::from_chars(value.data(), end, size);
      if (parsed.ec != std::errc() || parsed.ptr != end) fail("an extended header is damaged");
      extended.size = size;
    }
    records.remove_prefix(length);
  }
}

bool is_zero(Bytes block) {
  return std::all_of(block.begin(), block.end(), [](std::uint8_t byte) { return byte == 0; });
}

void put(std::string& block, Field field, std::string_view text) {
  assert(text.size() <= field.size);
  block.replace(field.begin, text.size(), text);
}

// Zeros in front and a NUL behind, as wide as the field.
void put_octal(std::string& block, Field field, std::uint64_t value) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%0*llo", static_cast<int>(field.size - 1),
                static_cast<unsigned long long>(value));
  put(block, field, {digits.data(), field.size});
}

}  // namespace

Bytes TarReader::take(std::uint64_t size, const std::string& name) {
  const std::uint64_t left = archive_.size() - position_;
  if (size > left) {
    fail("the archive ends within " + name + ", " + std::to_string(size - left) +
         " bytes are missing: it was cut short");
  }
  const Bytes taken = archive_.subspan(position_, size);
  // The padding of the last member may be missing; what matters is missed next.
  position_ += std::min(left, size + tar_padding(size));
  return taken;
}

bool TarReader::next(TarMember& member) {
  Extended extended;
  for (;;) {
    const std::string place = "the header at byte " + std::to_string(position_);
    if (position_ == archive_.size())
      fail("the archive has no mark of its end: it was cut short after a member");
    const Bytes header = take(kBlock, place);
    if (is_zero(header)) return false;
    if (number_of(header, kChecksum) != checksum_of(header))
      fail(place + " is damaged, or this is no tar archive");
    const auto own_size = number_of(header, kSize);
    if (!own_size) fail(place + " has a size that is no number");
    const char type = static_cast<char>(header[kType.begin]);
    const bool describes_next = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    const std::uint64_t size = describes_next ? *own_size : extended.size.value_or(*own_size);
    member.name = !describes_next && extended.name ? *extended.name : name_of(header);
    // Links and folders have no content, whatever their header says of what they stand for.
    const bool has_content = type < '1' || type > '6';
    member.content = take(has_content ? size : 0, "\"" + printable(member.name) + "\"");
    member.file = type == '0' || type == '\0' || type == '7';
    if (type == 'x') read_pax(as_text(member.content), extended);
    if (type == 'L') {
      const std::string_view name = as_text(member.content);
      extended.name = std::string(name.substr(0, name.find('\0')));
    }
    if (!describes_next) return true;
  }
}

std::string tar_header(std::string_view name, std::uint64_t size) {
  assert(name.size() <= kName.size && size < std::uint64_t{1} << 33);
  std::string block(kBlock, '\0');
  put(block, kName, name);
  put_octal(block, kMode, 0644);
  put_octal(block, kUser, 0);
  put_octal(block, kGroup, 0);
  put_octal(block, kSize, size);
  put_octal(block, kTime, 0);
  put(block, kType, "0");
  put(block, kMagic, std::string_view("ustar\0", 6));
  put(block, kVersion, "00");
  put(block, kChecksum, "        ");
  put_octal(block, {kChecksum.begin, kChecksum.size - 1}, checksum_of(as_bytes(block)));
  return block;
}

std::size_t tar_padding(std::uint64_t size) {
  return static_cast<std::size_t>((kBlock - size % kBlock) % kBlock);
}

}  // namespace trainer::data

// Integers of a file's header, each read checked against the file's end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.h"
#include "data/dataset.h"

namespace trainer::data {

// `format` as in messages: "PNG".
[[noreturn]] inline void throw_damaged(const char* format, const std::string& reason) {
  throw Error(Exit::data,
              std::string("the ") + format + " data is damaged or cut short: " + reason);
}

class HeaderReader {
 public:
  HeaderReader(Bytes bytes, bool little_endian, const char* format)
      : bytes_(bytes), little_(little_endian), format_(format) {}

  std::uint32_t u8(std::size_t offset) const {
    if (offset >= bytes_.size()) damaged("it ends in the header");
    return bytes_[offset];
  }
  std::uint32_t u16(std::size_t offset) const {
    const std::uint32_t first = u8(offset);
    const std::uint32_t second = u8(offset + 1);
    return little_ ? first | second << 8 : first << 8 | second;
  }
  std::uint32_t u24(std::size_t offset) const {
    return little_ ? u16(offset) | u8(offset + 2) << 16 : u16(offset) << 8 | u8(offset + 2);
  }
  std::uint32_t u32(std::size_t offset) const {
    return little_ ? u16(offset) | u16(offset + 2) << 16 : u16(offset) << 16 | u16(offset + 2);
  }

  // Whether the file holds `length` bytes from `offset` on.
  bool holds(std::uint64_t offset, std::uint64_t length) const {
    return offset <= bytes_.size() && length <= bytes_.size() - offset;
  }
  std::size_t size() const { return bytes_.size(); }
  Bytes bytes() const { return bytes_; }

  [[noreturn]] void damaged(const std::string& reason) const { throw_damaged(format_, reason); }

 private:
  Bytes bytes_;
  bool little_;
  const char* format_;
};

}  // namespace trainer::data

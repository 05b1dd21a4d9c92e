// The tar format: POSIX ustar and pax archives, and GNU's long names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/dataset.h"

namespace trainer::data {

struct TarMember {
  std::string name;
  Bytes content;      // views the archive
  bool file = false;  // a regular one
};

// Goes through the members of an archive.
class TarReader {
 public:
  explicit TarReader(Bytes archive) : archive_(archive) {}

  // The next member; false at the mark of the archive's end. Throws Error(data) with the reason
  // alone, naming the member, where the archive is damaged or ends before its mark.
  bool next(TarMember& member);

 private:
  Bytes take(std::uint64_t size, const std::string& name);

  Bytes archive_;
  std::size_t position_ = 0;
};

// The 512-byte ustar header of a regular file that anyone may read, without times and owners: equal
// files give equal archives. `name` has at most 100 bytes, `size` is under 8 GiB.
std::string tar_header(std::string_view name, std::uint64_t size);
// Zero bytes after a member of `size` bytes.
std::size_t tar_padding(std::uint64_t size);
// Zero bytes that mark the end.
constexpr std::size_t kTarEnd = 1024;

}  // namespace trainer::data

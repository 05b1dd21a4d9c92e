// Files as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace trainer::data {

// A path (or any bytes) for a message: control characters, backslashes and bytes that are no UTF-8
// escaped, so that a message stays one line whatever a file is called.
std::string printable(std::string_view path);
inline std::string printable(const std::filesystem::path& path) {
  return printable(std::string_view(path.native()));
}
inline std::string printable(const char* path) { return printable(std::string_view(path)); }
inline std::string printable(const std::string& path) { return printable(std::string_view(path)); }

// Whether the name ends as image files' names do. Nothing is opened: with a million files that
// would take minutes, and what a file really is shows its content when it is decoded.
bool has_image_extension(std::string_view name);

// A whole file, mapped read-only for the object's life. The file must not be shortened meanwhile
// (reading past its new end is a bus error). Throws Error(data) naming the file where it is
// missing, unreadable or empty.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  Bytes bytes() const { return bytes_; }
  // How the system is to read from the disk: nothing but what is touched, or, as at first, some of
  // what lies around it too.
  enum class ReadAhead { none, normal };
  void set_read_ahead(ReadAhead ahead) const;
  // Starts to read `part` of the bytes, which are to be used soon, in one go.
  void prefetch(Bytes part) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Bytes bytes_;
};

// The whole file into `buffer`, whose capacity is reused. Throws Error(data) with the reason alone
// (the caller knows what the file is for).
void read_file(const std::string& path, std::vector<std::uint8_t>& buffer);

// Source::fetch of an image file. Throws Error(data) naming it, `class_name` and the reason.
Raw fetch_file(const std::string& path, const std::string& class_name,
               std::vector<std::uint8_t>& buffer);

// Throws Error(data) naming `path` where its size is not the one that its format asks for.
void require_size(const std::filesystem::path& path, std::uint64_t actual, std::uint64_t expected);

// XXH3 of the bytes, chained by `seed`.
std::uint64_t hash_bytes(Bytes bytes, std::uint64_t seed);
std::uint64_t hash_text(std::string_view text, std::uint64_t seed);

inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace trainer::data

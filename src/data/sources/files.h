// Files as bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

using Bytes = std::span<const std::uint8_t>;

// A whole file, mapped read-only for the object's life. Throws Error(data) naming the file where it
// is missing, unreadable or empty.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  Bytes bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  Bytes bytes_;
};

// The whole file into `buffer`, whose capacity is reused. Throws Error(data) with the reason alone
// (the caller knows what the file is for).
void read_file(const std::string& path, std::vector<std::uint8_t>& buffer);

// Throws Error(data) naming `path` where its size is not the one that its format asks for.
void require_size(const std::filesystem::path& path, std::uint64_t actual, std::uint64_t expected);

// XXH3 of the bytes, chained by `seed`.
std::uint64_t hash_bytes(Bytes bytes, std::uint64_t seed);
std::uint64_t hash_text(const std::string& text, std::uint64_t seed);

}  // namespace trainer::data

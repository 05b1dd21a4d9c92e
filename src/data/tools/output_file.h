// A file that a tool writes. Internal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace trainer::data {

// Written through a buffer, on disk after `finish`; gone again where that is not reached. Throws
// Error(storage) naming the file and what to do.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);  // which must not exist
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::string_view data);
  std::int64_t size() const { return size_; }
  void finish();

 private:
  void flush();

  std::filesystem::path path_;
  int descriptor_;
  std::int64_t size_ = 0;
  std::string buffer_;
};

[[noreturn]] void throw_write_error(const std::filesystem::path& path, int error);

}  // namespace trainer::data

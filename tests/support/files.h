// What the tests of rooms that write to disk share.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/errors.h"

namespace trainer {

// A folder of its own for each test, removed after it.
class Temporary : public testing::Test {
 protected:
  Temporary() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trainer-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~Temporary() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace trainer

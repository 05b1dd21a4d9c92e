// Many short texts in one block of memory: a std::string for each of a million files would take
// three times as much.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

class TextList {
 public:
  std::size_t size() const { return ends_.size(); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](std::size_t index) const {
    const std::uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }
  void add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(bytes_.size());
  }
  void append(const TextList& other);
  void reserve(std::size_t texts, std::size_t bytes);
  // By bytes, whatever the locale.
  void sort();

  // For an index on disk.
  const std::string& bytes() const { return bytes_; }
  const std::vector<std::uint64_t>& ends() const { return ends_; }
  // What `bytes` and `ends` of another list gave; false where they do not belong together.
  bool assign(std::string bytes, std::vector<std::uint64_t> ends);

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;  // of each text in bytes_
};

}  // namespace trainer::data

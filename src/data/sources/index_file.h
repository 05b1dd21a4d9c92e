// What was found out about a data set, kept in the user's cache folder so that the next run need
// not look again. Only a help: whatever goes wrong, the caller looks again.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "data/sources/text_list.h"

namespace trainer::data {

// When a file or folder was last changed, and which one it is.
struct Stamp {
  std::int64_t changed = 0;  // nanoseconds since 1970
  std::uint64_t inode = 0;
  std::uint64_t size = 0;  // of a file
  bool operator==(const Stamp&) const = default;
};
// nullopt where there is nothing at `path`.
std::optional<Stamp> stamp_of(const std::filesystem::path& path);
Stamp stamp_of_open(int descriptor);

// The time in Stamp::changed's unit.
std::int64_t now();
// Whether a later change is sure to give another stamp: clocks tick, some file systems' only every
// two seconds, so what changed just before it was looked at may change again within the same tick.
bool settled(const Stamp& stamp, std::int64_t looked_at);

// Values one after another, in this machine's byte order.
class Packer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void numbers(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    number<std::uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void text(std::string_view value);
  void texts(const std::vector<std::string>& values);
  void texts(const TextList& values);
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads what a Packer wrote. Throws Damaged where it is something else.
class Unpacker {
 public:
  struct Damaged : std::runtime_error {
    Damaged() : std::runtime_error("the index is damaged") {}
  };
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(1, sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> numbers() {
    const auto count = number<std::uint64_t>();
    const std::string_view bytes = take(count, sizeof(T));
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::string text();
  std::vector<std::string> texts();
  TextList text_list();

 private:
  std::string_view take(std::uint64_t count, std::size_t size);

  std::string_view bytes_;
};

// What save_index kept for `subject`, an absolute path, or nullopt where there is nothing, or
// nothing whole or of this version of the program.
std::optional<std::string> load_index(const std::string& kind, const std::string& subject);
// In one atomic step; does nothing where it cannot be written.
void save_index(const std::string& kind, const std::string& subject, const Packer& content);

}  // namespace trainer::data

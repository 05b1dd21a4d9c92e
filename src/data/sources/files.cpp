#include "data/sources/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace trainer::data {
namespace {

[[noreturn]] void fail(const std::string& reason) { throw Error(Exit::data, reason); }

// An open file with its size.
class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      // Without O_NONBLOCK, opening a pipe would wait for its writer.
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0) {
      const std::string reason = std::strerror(errno);
      close();
      fail("cannot open the file: " + reason);
    }
    if (!S_ISREG(status.st_mode)) {
      close();
      fail("it is not a regular file");
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  ~OpenFile() { close(); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int descriptor() const { return descriptor_; }
  std::size_t size() const { return size_; }

 private:
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  int descriptor_;
  std::size_t size_ = 0;
};

Bytes map(const std::string& path) {
  const OpenFile file(path);
  if (file.size() == 0) fail("the file is empty");
  void* address = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (address == MAP_FAILED) fail(std::string("cannot map the file: ") + std::strerror(errno));
  return {static_cast<const std::uint8_t*>(address), file.size()};
}

// Bytes of the UTF-8 character that `text` starts with; 0 where it starts with none, or with a
// control character.
std::size_t printable_character(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
  };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f ? 1 : 0;
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond Unicode; then the C1 controls and the two
  // separators that some terminals take for the end of a line.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f)) return 0;
  if ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f)) return 0;
  if (lead == 0xc2 && byte(1) < 0xa0) return 0;
  if (lead == 0xe2 && byte(1) == 0x80 && (byte(2) == 0xa8 || byte(2) == 0xa9)) return 0;
  return size;
}

std::string escaped(char byte) {
  if (byte == '\n') return "\\n";
  if (byte == '\t') return "\\t";
  if (byte == '\r') return "\\r";
  std::array<char, 5> text{};
  std::snprintf(text.data(), text.size(), "\\x%02x", unsigned{static_cast<std::uint8_t>(byte)});
  return text.data();
}

}  // namespace

std::string printable(std::string_view path) {
  std::string text;
  text.reserve(path.size());
  while (!path.empty()) {
    const std::size_t size = printable_character(path);
    if (path[0] == '\\')
      text += "\\\\";
    else if (size > 0)
      text += path.substr(0, size);
    else
      text += escaped(path[0]);
    path.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return text;
}

bool has_image_extension(std::string_view name) {
  static constexpr std::array<std::string_view, 11> kExtensions{
      "jpg", "jpeg", "jpe", "png", "bmp", "webp", "tif", "tiff", "ppm", "pgm", "pnm"};
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot > 5) return false;
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return std::find(kExtensions.begin(), kExtensions.end(), extension) != kExtensions.end();
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  try {
    bytes_ = map(path.string());
  } catch (const Error& error) {
    throw Error(error.code(), printable(path) + ": " + error.what());
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

// Failures of advice are of no consequence.
void MappedFile::set_read_ahead(ReadAhead ahead) const {
  ::madvise(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size(),
            ahead == ReadAhead::none ? MADV_RANDOM : MADV_NORMAL);
}

void MappedFile::prefetch(Bytes part) const {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  ::madvise(const_cast<std::uint8_t*>(part.data()) - before, part.size() + before, MADV_WILLNEED);
}

void read_file(const std::string& path, std::vector<std::uint8_t>& buffer) {
  const OpenFile file(path);
  buffer.resize(file.size());
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got = ::read(file.descriptor(), buffer.data() + done, buffer.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(std::string("cannot read the file: ") + std::strerror(errno));
    if (got == 0) fail("the file became shorter while it was read");
    done += static_cast<std::size_t>(got);
  }
}

Raw fetch_file(const std::string& path, const std::string& class_name,
               std::vector<std::uint8_t>& buffer) {
  try {
    read_file(path, buffer);
  } catch (const Error& error) {
    throw Error(error.code(),
                printable(path) + " (class \"" + printable(class_name) + "\"): " + error.what());
  }
  return {.bytes = buffer};
}

void require_size(const std::filesystem::path& path, std::uint64_t actual, std::uint64_t expected) {
  if (actual == expected) return;
  fail(printable(path) + ": the file has " + std::to_string(actual) + " bytes, expected " +
       std::to_string(expected) + "; it is incomplete or of another kind, fetch it again");
}

std::uint64_t hash_bytes(Bytes bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace trainer::data

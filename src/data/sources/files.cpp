#include "data/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
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
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
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

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  try {
    bytes_ = map(path.string());
  } catch (const Error& error) {
    throw Error(error.code(), path.string() + ": " + error.what());
  }
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::uint8_t*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

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

void require_size(const std::filesystem::path& path, std::uint64_t actual, std::uint64_t expected) {
  if (actual == expected) return;
  fail(path.string() + ": the file has " + std::to_string(actual) + " bytes, expected " +
       std::to_string(expected) + "; it is incomplete or of another kind, fetch it again");
}

std::uint64_t hash_bytes(Bytes bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_text(const std::string& text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

}  // namespace trainer::data

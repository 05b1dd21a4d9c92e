#include "checkpoint/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <new>

#include "core/storage.h"
#include "core/text.h"

namespace trainer::checkpoint {
namespace {

// Hashing follows reading or writing in pieces that stay in the processor's cache.
constexpr std::size_t kPiece = std::size_t{1} << 20;

[[noreturn]] void throw_system_error(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

}  // namespace

void Hash::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hash::Hash() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_64bits_reset(state_.get());
}

void Hash::update(const void* data, std::size_t size) {
  XXH3_64bits_update(state_.get(), data, size);
}

std::string Hash::hex() const {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016" PRIx64,
                static_cast<std::uint64_t>(XXH3_64bits_digest(state_.get())));
  return text.data();
}

OutputFile::OutputFile(const std::filesystem::path& path)
    : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw_system_error(path);
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputFile::write(const void* data, std::size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd_, from, std::min(size, kPiece));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw std::system_error(errno, std::generic_category());
    }
    const auto count = static_cast<std::size_t>(written);
    hash_.update(from, count);
    from += count;
    size -= count;
    size_ += written;
  }
}

Fingerprint OutputFile::finish() {
  while (::fsync(fd_) != 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category());
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0) throw std::system_error(errno, std::generic_category());
  return {size_, hash_.hex()};
}

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat status {};
  const bool opened = fd_ >= 0 && ::fstat(fd_, &status) == 0;
  const int error = errno;
  if (opened && S_ISREG(status.st_mode)) {
    size_ = status.st_size;
    return;
  }
  if (fd_ >= 0) ::close(fd_);
  throw Error(Exit::storage, path.string() + ": cannot be read: " +
                                 (opened ? "not a file" : std::generic_category().message(error)));
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

void InputFile::read(void* data, std::size_t size) {
  char* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::read(fd_, to, std::min(size, kPiece));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw Error(Exit::storage,
                  path_.string() + ": cannot be read: " + std::generic_category().message(errno));
    if (got == 0)
      throw Error(Exit::storage, path_.string() + ": ends after " + std::to_string(position_) +
                                     " bytes: it was cut short while being read");
    const auto count = static_cast<std::size_t>(got);
    hash_.update(to, count);
    to += count;
    size -= count;
    position_ += got;
  }
}

std::shared_ptr<std::byte> InputFile::map() const {
  if (size_ == 0) return nullptr;
  const auto bytes = static_cast<std::size_t>(size_);
  void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (memory == MAP_FAILED)
    throw Error(Exit::storage,
                path_.string() + ": cannot be mapped: " + std::generic_category().message(errno));
  return {static_cast<std::byte*>(memory), [bytes](std::byte* mapped) { ::munmap(mapped, bytes); }};
}

std::string InputFile::read_rest() {
  std::string text(static_cast<std::size_t>(size_ - position_), '\0');
  read(text.data(), text.size());
  return text;
}

std::int64_t free_space(const std::filesystem::path& folder) {
  struct statvfs status {};
  if (::statvfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return -1;
  return static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
}

Error write_error(const std::filesystem::path& what, std::int64_t needed, std::error_code reason) {
  const std::int64_t available = free_space(what.parent_path().empty() ? "." : what.parent_path());
  std::string message = "cannot write " + what.string() + ": " + reason.message() + " (" +
                        human_bytes(static_cast<double>(needed)) + " needed";
  if (available >= 0) message += ", " + human_bytes(static_cast<double>(available)) + " free";
  return Error(Exit::storage, message + "); " + storage_advice(reason.value()));
}

}  // namespace trainer::checkpoint

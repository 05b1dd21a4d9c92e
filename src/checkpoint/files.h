// Files of a checkpoint: written and read once, front to back, and hashed on the way. Internal to
// this room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "core/error.h"

struct XXH3_state_s;

namespace trainer::checkpoint {

// XXH3, 64 bits, no seed (what `xxhsum -H3` prints), over data that comes in pieces.
class Hash {
 public:
  Hash();
  void update(const void* data, std::size_t size);
  std::string hex() const;  // 16 digits

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// What identifies a file's contents.
struct Fingerprint {
  std::int64_t size = 0;
  std::string xxh3;
  bool operator==(const Fingerprint&) const = default;
};

// A new file. A system call that fails is thrown as std::system_error with the errno, so that the
// caller can say what was being written; `write_error` makes the message.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);  // truncates an existing file
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(const void* data, std::size_t size);
  // On disk when this returns: a full disk may first be reported by fsync or close.
  Fingerprint finish();

 private:
  int fd_ = -1;
  std::int64_t size_ = 0;
  Hash hash_;
};

// An existing file; every failure is Error(storage) with the path.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }  // when it was opened
  // Fills all of `data`, or throws where the file ends before.
  void read(void* data, std::size_t size);
  std::string read_rest();
  // The whole file in memory, read as it is touched; not hashed. Null for an empty file.
  std::shared_ptr<std::byte> map() const;
  // Of what has been read so far.
  Fingerprint fingerprint() const { return {position_, hash_.hex()}; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  std::int64_t size_ = 0;
  std::int64_t position_ = 0;
  Hash hash_;
};

// Bytes that this user may still write on the file system of `folder`, or -1 where it does not say.
std::int64_t free_space(const std::filesystem::path& folder);

// Error(storage) for a failed write of `what` (a path), with the reason, the bytes needed and those
// free, and what to do.
Error write_error(const std::filesystem::path& what, std::int64_t needed, std::error_code reason);

}  // namespace trainer::checkpoint

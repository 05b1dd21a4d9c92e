#include "data/tools/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

constexpr std::size_t kBuffer = std::size_t{4} << 20;

std::string advice(int error) {
  if (error == ENOSPC || error == EDQUOT) return "; free some space or choose another disk";
  if (error == EEXIST) return "; remove it or choose another name";
  if (error == EFBIG) return "; raise the limit on the size of files (ulimit -f)";
  return "";
}

}  // namespace

void throw_write_error(const std::filesystem::path& path, int error) {
  throw Error(Exit::storage, "cannot write " + printable(path) + ": " +
                                 std::generic_category().message(error) + advice(error));
}

OutputFile::OutputFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) throw_write_error(path_, errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(path_.c_str());
}

void OutputFile::append(std::string_view data) {
  buffer_ += data;
  size_ += static_cast<std::int64_t>(data.size());
  if (buffer_.size() >= kBuffer) flush();
}

void OutputFile::flush() {
  std::string_view left = buffer_;
  while (!left.empty()) {
    const ssize_t written = ::write(descriptor_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_error(path_, errno);
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

void OutputFile::finish() {
  flush();
  if (::fsync(descriptor_) != 0) throw_write_error(path_, errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) throw_write_error(path_, errno);
}

}  // namespace trainer::data

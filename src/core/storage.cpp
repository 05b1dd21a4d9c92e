#include "core/storage.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace trainer {

std::string storage_advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space, lower checkpoint.keep, or give an --output on another disk";
    case EFBIG:
      return "raise the limit on the size of files (ulimit -f)";
    case EACCES:
    case EPERM:
      return "make it writable for this user, or give another --output";
    case EROFS:
      return "the file system is mounted read-only: give an --output elsewhere";
    default:
      return "check the disk, or give another --output";
  }
}

void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), folder.string());
  const int failed = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some network file systems have no fsync of folders and say EINVAL.
  if (failed != 0 && error != EINVAL)
    throw std::system_error(error, std::generic_category(), folder.string());
}

}  // namespace trainer

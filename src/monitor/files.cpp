#include "monitor/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/storage.h"

namespace trainer::monitor {
namespace {

namespace fs = std::filesystem;

int open_flags(AppendFile::Mode mode) {
  switch (mode) {
    case AppendFile::Mode::append:
      return O_CREAT | O_APPEND;
    case AppendFile::Mode::truncate:
      return O_CREAT | O_TRUNC;
    case AppendFile::Mode::create:
      return O_CREAT | O_EXCL;
  }
  return 0;
}

void sync_folder_of(const fs::path& path) try {
  sync_folder(path.parent_path().empty() ? fs::path(".") : path.parent_path());
} catch (const std::system_error& failure) {
  throw_storage_error("write", path, failure.code().value());
}

}  // namespace

void throw_storage_error(const std::string& action, const fs::path& path, int error) {
  throw Error(Exit::storage, "cannot " + action + " " + path.string() + ": " +
                                 std::generic_category().message(error) + "; " +
                                 storage_advice(error));
}

AppendFile::AppendFile(fs::path path, Mode mode)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CLOEXEC | open_flags(mode), 0666)) {
  if (fd_ < 0) throw_storage_error("open", path_, errno);
}

AppendFile::~AppendFile() {
  if (fd_ >= 0) ::close(fd_);
}

void AppendFile::append(std::string_view data) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd_, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_storage_error("write", path_, errno);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendFile::sync() {
  while (::fsync(fd_) != 0)
    if (errno != EINTR) throw_storage_error("write", path_, errno);
}

void replace_file(const fs::path& path, const std::function<void(AppendFile&)>& fill) {
  std::string name = ".";
  name += path.filename().string();
  const fs::path temporary = path.parent_path() / (name + ".tmp-" + std::to_string(::getpid()));
  std::error_code failure;
  try {
    AppendFile file(temporary, AppendFile::Mode::truncate);
    fill(file);
    file.sync();
  } catch (...) {
    fs::remove(temporary, failure);
    throw;
  }
  fs::rename(temporary, path, failure);
  if (failure) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw_storage_error("replace", path, failure.value());
  }
  sync_folder_of(path);
}

void for_each_line(const fs::path& path, const std::function<bool(std::string_view line)>& use) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_storage_error("read", path, errno);
  std::string line;
  while (std::getline(file, line)) {
    if (!file.eof()) line += '\n';
    if (!use(line)) return;
  }
  if (file.bad()) throw_storage_error("read", path, errno);
}

void keep_lines(const fs::path& path, const std::function<bool(std::string_view line)>& keep) {
  if (!fs::exists(path)) return;
  const auto is_kept = [&](std::string_view line) {
    return line.ends_with('\n') && keep(line.substr(0, line.size() - 1));
  };
  bool all = true;
  for_each_line(path, [&](std::string_view line) { return all = is_kept(line); });
  if (all) return;
  replace_file(path, [&](AppendFile& file) {
    constexpr std::size_t kBuffered = std::size_t{1} << 20;
    std::string buffer;
    for_each_line(path, [&](std::string_view line) {
      if (is_kept(line)) buffer += line;
      if (buffer.size() > kBuffered) file.append(std::exchange(buffer, {}));
      return true;
    });
    file.append(buffer);
  });
}

}  // namespace trainer::monitor

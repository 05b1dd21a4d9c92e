// Files of a run folder. Failures are Error(storage) with the path and the reason. Internal.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace trainer::monitor {

// A file that grows. Each `append` is one write(2): a process that is killed leaves no more than
// one partial record, the last.
class AppendFile {
 public:
  enum class Mode { append, truncate, create };  // create: the file must not exist
  AppendFile(std::filesystem::path path, Mode mode);
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  void append(std::string_view data);
  void sync();  // on disk when this returns
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

// Makes or replaces `path` with what `fill` appends: it is there whole or not at all.
void replace_file(const std::filesystem::path& path, const std::function<void(AppendFile&)>& fill);

// The lines of `path` with their newlines; a partial last line comes without one. Stops where `use`
// returns false.
void for_each_line(const std::filesystem::path& path,
                   const std::function<bool(std::string_view line)>& use);

// Rewrites `path` with only the lines that `keep` accepts, where there are others. A line comes
// without its newline; a partial last line is never kept.
void keep_lines(const std::filesystem::path& path,
                const std::function<bool(std::string_view line)>& keep);

[[noreturn]] void throw_storage_error(const std::string& action, const std::filesystem::path& path,
                                      int error);

}  // namespace trainer::monitor

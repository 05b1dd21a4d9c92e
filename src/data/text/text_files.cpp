#include "data/text/text_files.h"

#include <algorithm>
#include <system_error>

#include "core/error.h"
#include "core/text.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Files = std::vector<fs::path>;

[[noreturn]] void fail(const fs::path& path, const std::string& reason) {
  throw Error(Exit::data, printable(path) + ": " + reason);
}

bool hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

// Adds the files of `folder` for which `wanted(name)` holds.
template <class Wanted>
void list(const fs::path& folder, bool deep, const Wanted& wanted, Files& files) {
  std::error_code failure;
  Files folders;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const fs::path path = folder / entry->path().filename();
    std::error_code unknown;
    if (hidden(path)) continue;
    if (entry->is_directory(unknown))
      folders.push_back(path);
    else if (wanted(path.filename().native()))
      files.push_back(path);
  }
  if (failure) fail(folder, "cannot be read: " + failure.message());
  if (!deep) return;
  for (const fs::path& each : folders) list(each, deep, wanted, files);
}

Files sorted(Files files) {
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  return files;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " or ") + word;
  return text;
}

Files files_in(const fs::path& folder, const std::vector<std::string>& extensions, bool deep) {
  const auto wanted = [&extensions](const std::string& name) {
    return std::any_of(extensions.begin(), extensions.end(),
                       [&name](const std::string& each) { return name.ends_with(each); });
  };
  Files files;
  list(folder, deep, wanted, files);
  if (files.empty()) {
    fail(folder, "this folder holds no " + joined(extensions) +
                     " files; name others by a glob, such as path/*.dat");
  }
  return sorted(std::move(files));
}

Files matching(const fs::path& path) {
  const std::string pattern = path.filename().native();
  if (pattern.find_first_of("*?") == std::string::npos) fail(path, "no such file or folder");
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  Files files;
  list(
      folder, /*deep=*/false,
      [&pattern](const std::string& name) { return glob_match(pattern, name); }, files);
  if (files.empty()) fail(path, "no file's name matches");
  return sorted(std::move(files));
}

}  // namespace

Files find_files(const std::string& path, const std::vector<std::string>& extensions, bool deep) {
  std::error_code failure;
  const fs::file_status status = fs::status(path, failure);
  if (fs::is_directory(status)) return files_in(path, extensions, deep);
  if (fs::exists(status)) return {path};
  return matching(path);
}

}  // namespace trainer::data

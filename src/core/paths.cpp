#include "core/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <system_error>

namespace trainer {
namespace {

// The value of a variable that must hold an absolute path (a relative one is to be ignored, says
// the XDG base directory specification).
std::optional<std::filesystem::path> absolute_path(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || value[0] != '/') return std::nullopt;
  return value;
}

bool make_writable(const std::filesystem::path& folder) {
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  return !failure && ::access(folder.c_str(), W_OK | X_OK) == 0;
}

}  // namespace

std::optional<std::filesystem::path> cache_folder() {
  if (const auto cache = absolute_path("XDG_CACHE_HOME")) {
    if (std::filesystem::path folder = *cache / "trainer"; make_writable(folder)) return folder;
  }
  if (const auto home = absolute_path("HOME")) {
    if (std::filesystem::path folder = *home / ".cache" / "trainer"; make_writable(folder))
      return folder;
  }
  return std::nullopt;
}

}  // namespace trainer

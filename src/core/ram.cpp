#include "core/ram.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

std::int64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kibibytes = 0;
    if (words >> name >> kibibytes && name == "MemAvailable:") return kibibytes * 1024;
  }
  return kUnlimited;
}

// The number in `file`; "max" and a missing file are no limit.
std::int64_t limit_in(const fs::path& file) {
  std::int64_t limit = 0;
  return std::ifstream(file) >> limit && limit > 0 ? limit : kUnlimited;
}

// The tightest limit in the folders from `cgroup` up to the root of its hierarchy. A container
// may see only the root of a path that the host names in full.
std::int64_t tightest(const fs::path& hierarchy, const std::string& cgroup, const char* file) {
  std::int64_t limit = limit_in(hierarchy / file);
  fs::path folder = hierarchy;
  for (const fs::path& part : fs::path(cgroup).relative_path()) {
    folder /= part;
    limit = std::min(limit, limit_in(folder / file));
  }
  return limit;
}

std::int64_t cgroup_limit() {
  std::int64_t limit = kUnlimited;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // hierarchy:controllers:path
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,")
      limit = std::min(limit, tightest("/sys/fs/cgroup", path, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      limit = std::min(limit, tightest("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
  }
  return limit;
}

}  // namespace

std::int64_t ram_limit() { return std::min(memory_available(), cgroup_limit()); }

}  // namespace trainer

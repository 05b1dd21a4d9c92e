#include "core/cpu.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

namespace trainer {
namespace {

int affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  // More CPUs than a cpu_set_t holds.
  return static_cast<int>(std::thread::hardware_concurrency());
}

// quota / period in CPUs, or 0 where there is no limit.
double quota_v2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return std::atof(quota.c_str()) / period;
}

double quota_v1(const std::string& folder) {
  double quota = 0;
  double period = 0;
  std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
  std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The tightest limit on the way from this process's own cgroup up to the root.
double cgroup_quota() {
  double tightest = 0;
  const auto consider = [&](double cpus) {
    if (cpus > 0 && (tightest == 0 || cpus < tightest)) tightest = cpus;
  };
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("cpu") == std::string::npos) continue;
    const std::string root = v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    for (;;) {
      consider(v2 ? quota_v2(root + path) : quota_v1(root + path));
      const auto slash = path.rfind('/');
      if (path.empty() || path == "/" || slash == std::string::npos) break;
      path.erase(slash);
    }
    consider(v2 ? quota_v2(root) : quota_v1(root));
  }
  return tightest;
}

}  // namespace

int cpu_limit() {
  int cpus = std::max(1, affinity());
  if (const double quota = cgroup_quota(); quota > 0)
    cpus = std::min(cpus, std::max(1, static_cast<int>(std::ceil(quota))));
  return cpus;
}

}  // namespace trainer

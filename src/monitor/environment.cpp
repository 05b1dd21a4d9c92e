// environment.json: what a run ran in.
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>

#include "core/cpu.h"
#include "monitor/run_folder.h"

extern char** environ;

namespace trainer::monitor {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream input(file);
  std::string line;
  std::getline(input, line);
  return line;
}

// .git of `folder` or of the nearest folder above it; a file of that name (in a worktree or a
// submodule) says where the folder is.
fs::path git_folder(fs::path folder) {
  for (;; folder = folder.parent_path()) {
    std::error_code ignored;
    fs::path git = folder / ".git";
    if (fs::is_directory(git, ignored)) return git;
    constexpr std::string_view kPointer = "gitdir: ";
    if (const std::string line = first_line(git); line.starts_with(kPointer))
      return folder / line.substr(kPointer.size());
    if (!folder.has_relative_path()) return {};
  }
}

std::string packed_commit(const fs::path& git, const std::string& reference) {
  std::ifstream input(git / "packed-refs");
  for (std::string line; std::getline(input, line);)
    if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
  return {};
}

// Read from the files of git, without starting a process: {commit, branch}.
nlohmann::json git_state(const fs::path& folder) {
  const fs::path git = git_folder(folder);
  if (git.empty()) return nullptr;
  const std::string head = first_line(git / "HEAD");
  constexpr std::string_view kReference = "ref: ";
  if (!head.starts_with(kReference)) return {{"commit", head}};
  const std::string reference = head.substr(kReference.size());
  // A worktree keeps the branches of the repository that it belongs to.
  const std::string common = first_line(git / "commondir");
  const fs::path shared = common.empty() ? git : git / common;
  std::string commit = first_line(shared / reference);
  if (commit.empty()) commit = packed_commit(shared, reference);
  constexpr std::string_view kBranches = "refs/heads/";
  nlohmann::json state = {{"branch", reference.starts_with(kBranches)
                                         ? reference.substr(kBranches.size())
                                         : reference}};
  if (!commit.empty()) state["commit"] = commit;
  return state;
}

std::string cpu_model() {
  std::ifstream input("/proc/cpuinfo");
  for (std::string line; std::getline(input, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::int64_t physical_memory() {
  return static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
}

// Of the current user's clock, with its offset: 2025-01-31T09:30:00+0100.
std::string start_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S%z", &local);
  return text.data();
}

// What decides how the run behaves; SLURM_JWT and its like are credentials.
bool is_relevant(std::string_view name) {
  static constexpr std::array<std::string_view, 12> kPrefixes{
      "CUDA_",   "NVIDIA_", "NCCL_",  "GLOO_",      "SLURM_",     "OMP_",
      "PYTORCH", "TORCH_",  "CUBLAS", "MASTER_ADD", "WORLD_SIZE", "LOCAL_RANK"};
  static constexpr std::array<std::string_view, 5> kSecrets{"JWT", "TOKEN", "KEY", "SECRET",
                                                            "PASS"};
  const auto holds = [&](std::string_view word) { return name.find(word) != name.npos; };
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); }) &&
         std::none_of(kSecrets.begin(), kSecrets.end(), holds);
}

nlohmann::json relevant_variables() {
  nlohmann::json variables = nlohmann::json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != text.npos && is_relevant(text.substr(0, equals)))
      variables[std::string(text.substr(0, equals))] = std::string(text.substr(equals + 1));
  }
  return variables;
}

}  // namespace

nlohmann::json environment(int argc, const char* const* argv) {
  struct utsname system {};
  ::uname(&system);
  std::error_code ignored;
  const fs::path folder = fs::current_path(ignored);
  const nlohmann::json found = {
      {"trainer", TRAINER_VERSION},
      {"started", start_time()},
      {"command", std::vector<std::string>(argv, argv + argc)},
      {"folder", folder.string()},
      {"process", ::getpid()},
      {"host", system.nodename},
      {"kernel", std::string(system.sysname) + " " + system.release + " " + system.machine},
      {"cpu",
       {{"model", cpu_model()},
        {"count", std::thread::hardware_concurrency()},
        {"usable", cpu_limit()}}},
      {"memory_bytes", physical_memory()},
      {"variables", relevant_variables()},
      {"git", git_state(folder)}};
  // Arguments and paths need not be UTF-8, and the caller is to be able to write this out.
  return nlohmann::json::parse(
      found.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace trainer::monitor

#include "checkpoint/names.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace trainer::checkpoint {
namespace {

constexpr std::string_view kStepPrefix = "step-";

}  // namespace

std::string tensors_file(std::string_view part) { return std::string(part) + ".safetensors"; }

std::string folder_name(std::int64_t step) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "step-%06lld", static_cast<long long>(step));
  return text.data();
}

std::optional<std::int64_t> step_of(std::string_view folder_name) {
  if (!folder_name.starts_with(kStepPrefix)) return std::nullopt;
  folder_name.remove_prefix(kStepPrefix.size());
  std::int64_t step = 0;
  const char* end = folder_name.data() + folder_name.size();
  const auto [stop, error] = std::from_chars(folder_name.data(), end, step);
  if (error != std::errc() || stop != end || step < 0) return std::nullopt;
  return step;
}

std::filesystem::path sibling(const std::filesystem::path& folder, const char* prefix) {
  return folder.parent_path() /
         (prefix + folder.filename().string() + "-" + std::to_string(::getpid()));
}

std::string replaced_name(std::string_view entry) {
  const std::string_view prefix = kOld;
  const std::size_t last = entry.rfind('-');
  if (!entry.starts_with(prefix) || last < prefix.size()) return {};
  return std::string(entry.substr(prefix.size(), last - prefix.size()));
}

std::vector<Entry> list_checkpoints(const std::filesystem::path& folder, bool replaced) {
  std::vector<Entry> found;
  std::vector<Entry> old;
  if (!std::filesystem::exists(folder)) return found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (const auto step = step_of(name)) found.push_back({*step, entry.path()});
    if (const auto step = step_of(replaced_name(name)); step && replaced)
      old.push_back({*step, entry.path()});
  }
  found.insert(found.end(), old.begin(), old.end());
  std::stable_sort(found.begin(), found.end(),
                   [](const Entry& a, const Entry& b) { return a.step > b.step; });
  return found;
}

}  // namespace trainer::checkpoint

// What stands in a folder of checkpoints, and what a checkpoint's files are called. Internal.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::checkpoint {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kStateFile = "state.json";
inline constexpr const char* kBestLink = "best";
inline constexpr const char* kTemporary = ".tmp-";         // being written or removed
inline constexpr const char* kOld = ".old-";               // replaced by a newer one of its step
inline constexpr const char* kSuperseded = "superseded-";  // of steps after one resumed from
inline constexpr int kManifestVersion = 1;

std::string tensors_file(std::string_view part);  // model -> model.safetensors
std::string folder_name(std::int64_t step);       // 500 -> step-000500
// The step of step-<digits>, nullopt for any other name.
std::optional<std::int64_t> step_of(std::string_view folder_name);
// `prefix` + name + this process's id: a sibling that no other process uses.
std::filesystem::path sibling(const std::filesystem::path& folder, const char* prefix);
// The name inside .old-<name>-<process>, empty where `entry` is not of that form.
std::string replaced_name(std::string_view entry);

struct Entry {
  std::int64_t step = 0;
  std::filesystem::path path;
};
// The checkpoints under `folder`, the newest first; with `replaced` also those which a newer one of
// the same step was replacing, behind it. None where there is no such folder. Throws
// std::system_error where it cannot be listed.
std::vector<Entry> list_checkpoints(const std::filesystem::path& folder, bool replaced);

}  // namespace trainer::checkpoint

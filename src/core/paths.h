// Places outside a run's own folder.
#pragma once

#include <filesystem>
#include <optional>

namespace trainer {

// This user's folder for what can be made again: $XDG_CACHE_HOME/trainer, or ~/.cache/trainer.
// Made where it is missing; nullopt where neither can be written.
std::optional<std::filesystem::path> cache_folder();

}  // namespace trainer

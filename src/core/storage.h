// What the rooms that write to disk share.
#pragma once

#include <filesystem>
#include <string>

namespace trainer {

// What a user can do about a write that failed with this errno; the end of a message.
std::string storage_advice(int error);

// Entries made, renamed or removed in `folder` are on disk when this returns. Throws
// std::system_error with the errno.
void sync_folder(const std::filesystem::path& folder);

}  // namespace trainer

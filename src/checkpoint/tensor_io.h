// safetensors over open files, for the store, which hashes while it writes and reads. Internal.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/files.h"
#include "core/tensors.h"

namespace trainer::checkpoint {

// The file's beginning, and with it where each tensor's bytes go. Throws std::invalid_argument for
// what is never a user's mistake: a name twice, a tensor off the CPU or of a dtype without a name.
struct Layout {
  std::string head;                // the length and the padded header
  std::vector<std::size_t> order;  // indices of the tensors, as their bytes stand in the file
  std::int64_t total_bytes = 0;    // of the whole file
};
Layout layout_of(const NamedTensors& tensors);

// Writes the whole file. System errors as OutputFile's.
void write_tensors(OutputFile& file, const NamedTensors& tensors);
// Reads the whole file, to its last byte. Errors as read_safetensors'.
NamedTensors read_tensors(InputFile& file);

}  // namespace trainer::checkpoint

// The safetensors format (https://github.com/huggingface/safetensors, README "Format"): an 8-byte
// little-endian header length, a JSON header, then the tensors' bytes.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/tensors.h"

namespace trainer::checkpoint {

// CPU tensors; written contiguous, in the order given, with metadata {"format": "pt"}. Returns the
// bytes written. Throws Error(storage) with the path and the space needed where the disk is full.
std::int64_t write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors);

// All tensors of `file`, on the CPU. Throws Error(storage) for a truncated or malformed file:
// every length, offset, dtype and shape is checked against the file's size before it is used.
NamedTensors read_safetensors(const std::filesystem::path& file);

}  // namespace trainer::checkpoint

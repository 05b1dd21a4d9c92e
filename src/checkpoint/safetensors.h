// The safetensors format (https://github.com/huggingface/safetensors, README "Format"): an 8-byte
// little-endian header length, a JSON header, then the tensors' bytes.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/tensors.h"

namespace trainer::checkpoint {

// CPU tensors; written contiguous, with metadata {"format": "pt"} and names in the order given (the
// bytes of wider dtypes stand before those of narrower ones, so that each tensor is aligned).
// Returns the bytes written; they are on disk then. Throws Error(storage) with the path and the
// space needed where the disk is full.
std::int64_t write_safetensors(const std::filesystem::path& file, const NamedTensors& tensors);

// All tensors of `file`, on the CPU, in the order of its header. Throws Error(storage) for a
// truncated or malformed file: every length, offset, dtype and shape is checked against the file's
// size before it is used.
NamedTensors read_safetensors(const std::filesystem::path& file);
// The same without reading: the tensors are the file's own pages, mapped, and keep it mapped. Their
// bytes must not be written, and the file must not shrink meanwhile.
NamedTensors map_safetensors(const std::filesystem::path& file);

}  // namespace trainer::checkpoint

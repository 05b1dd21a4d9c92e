// `trainer export`: a checkpoint's model in a form that other programs read. The header needs no
// torch (see engine/train.h).
#pragma once

#include <filesystem>

#include "engine/use.h"

namespace trainer::engine {

struct ExportOptions {
  enum class Format {
    safetensors,  // one file, under the model's names
    torchscript,  // one file for torch.jit.load
    huggingface,  // a folder for transformers' from_pretrained
  };
  UsedCheckpoint checkpoint;
  Format format = Format::safetensors;
  std::filesystem::path output;  // must not exist
  // safetensors only: the adapters of a run with model.lora alone, as a folder that peft reads.
  // Else they are merged into the weights.
  bool adapters = false;
};
// Returns the exit code; throws Error.
int export_model(const ExportOptions& options);

inline constexpr const char* kExportSymbol = "trainer_engine_export";
using ExportFunction = int (*)(const ExportOptions&);

}  // namespace trainer::engine

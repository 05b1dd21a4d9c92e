// Finds the images module and calls it.
#pragma once

#include <filesystem>
#include <span>

#include "data/dataset.h"
#include "data/images/images_module.h"

namespace trainer::data {

// Decodes `bytes` by the module, which is loaded at the first call: from $TRAINER_LIB, from beside
// the binary or the shared object that holds this code, or from the lib folder next to it. Throws
// Error(data) with the reason, also where there is no module. Thread-safe.
void decode_by_module(Bytes bytes, const TrainerImagesOptions& options, Image& image);

// Writes an RGB picture with captions as a PNG file, by the module. Throws Error(device) where
// there is none, Error(storage) where the file cannot be written.
void write_png_by_module(const Image& rgb, std::span<const TrainerImagesCaption> captions,
                         const std::filesystem::path& path);

}  // namespace trainer::data

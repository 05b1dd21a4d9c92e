// A batch as one picture. No torch here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/loader.h"

namespace trainer::data {

struct Caption {
  int left = 0, top = 0, width = 0;  // the room for it; what is longer is cut off
  std::string text;                  // printable ASCII: what the module's font has
};

struct ContactSheet {
  Image picture;  // RGB
  std::vector<Caption> captions;
};

inline constexpr int kCaptionHeight = 16;

// The first images of a batch that the loader holds, at most 64, in rows of up to 8. Each is in the
// top left corner of its tile with the pixels of the batch, repeated by a whole factor where it is
// smaller than 64 pixels, and has the name of its class below.
ContactSheet make_contact_sheet(const Loader& loader, const HostBatch& batch,
                                const std::vector<std::string>& class_names);

// How often a pixel of an image of that size is repeated in each direction.
int enlargement(int height, int width);

// `text` with '?' for each character that is not printable ASCII.
std::string ascii_only(const std::string& text);

// Draws the captions and writes a PNG file, by the images module. Throws Error(device) where there
// is no module, and Error(storage) where the file cannot be written.
void write_png(const ContactSheet& sheet, const std::filesystem::path& path);

}  // namespace trainer::data

#include "data/tools/contact_sheet.h"

#include <algorithm>
#include <cstdint>

#include "data/images/module_loader.h"

namespace trainer::data {
namespace {

constexpr std::int64_t kMostImages = 64;
constexpr std::int64_t kMostColumns = 8;
constexpr int kSmall = 64;
constexpr int kGap = 4;
constexpr std::uint8_t kPaper = 255;

struct Grid {
  int columns, rows;
  int tile_height, tile_width;
};

Grid grid_for(std::int64_t images, int height, int width) {
  const int scale = enlargement(height, width);
  const auto columns = static_cast<int>(std::min(images, kMostColumns));
  const auto rows = static_cast<int>((images + columns - 1) / columns);
  // Wide enough for a short name.
  return {columns, rows, scale * height + kCaptionHeight + kGap,
          std::max(scale * width, kSmall) + kGap};
}

// Row by row, each pixel `scale` times in both directions; grey becomes RGB.
void place(Bytes pixels, int height, int width, int channels, int top, int left, Image& sheet) {
  const int scale = enlargement(height, width);
  for (int y = 0; y < scale * height; ++y) {
    std::uint8_t* to = sheet.pixels.data() +
                       (static_cast<std::size_t>(top + y) * static_cast<std::size_t>(sheet.width) +
                        static_cast<std::size_t>(left)) *
                           3;
    for (int x = 0; x < scale * width; ++x) {
      const std::size_t at =
          (static_cast<std::size_t>(y / scale) * static_cast<std::size_t>(width) +
           static_cast<std::size_t>(x / scale)) *
          static_cast<std::size_t>(channels);
      for (std::size_t c = 0; c < 3; ++c) *to++ = pixels[channels == 1 ? at : at + c];
    }
  }
}

std::string caption_of(std::int64_t label, const std::vector<std::string>& names) {
  const auto at = static_cast<std::size_t>(label);
  return at < names.size() ? ascii_only(names[at]) : std::to_string(label);
}

}  // namespace

int enlargement(int height, int width) { return std::max(1, kSmall / std::max(height, width)); }

std::string ascii_only(const std::string& text) {
  std::string ascii;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0) == 0x80;  // a character of UTF-8 that has its '?' already
    if (byte >= 0x20 && byte < 0x7F)
      ascii += c;
    else if (!continues)
      ascii += '?';
  }
  return ascii;
}

ContactSheet make_contact_sheet(const Loader& loader, const HostBatch& batch,
                                const std::vector<std::string>& class_names) {
  const int height = loader.height();
  const int width = loader.width();
  const std::int64_t images = std::min(kMostImages, batch.size);
  const Grid grid = grid_for(images, height, width);
  ContactSheet sheet;
  sheet.picture = {grid.rows * grid.tile_height, grid.columns * grid.tile_width, 3, {}};
  sheet.picture.pixels.assign(static_cast<std::size_t>(sheet.picture.height) *
                                  static_cast<std::size_t>(sheet.picture.width) * 3,
                              kPaper);
  const std::size_t each = batch.images.size() / static_cast<std::size_t>(batch.size);
  for (std::int64_t i = 0; i < images; ++i) {
    const int top = static_cast<int>(i) / grid.columns * grid.tile_height;
    const int left = static_cast<int>(i) % grid.columns * grid.tile_width;
    const auto at = static_cast<std::size_t>(i);
    place(batch.images.subspan(at * each, each), height, width, loader.channels(), top, left,
          sheet.picture);
    sheet.captions.push_back({left, top + enlargement(height, width) * height,
                              grid.tile_width - kGap, caption_of(batch.labels[at], class_names)});
  }
  return sheet;
}

void write_png(const ContactSheet& sheet, const std::filesystem::path& path) {
  std::vector<TrainerImagesCaption> captions;
  for (const Caption& each : sheet.captions)
    captions.push_back({each.left, each.top, each.width, kCaptionHeight, each.text.c_str()});
  write_png_by_module(sheet.picture, captions, path);
}

}  // namespace trainer::data

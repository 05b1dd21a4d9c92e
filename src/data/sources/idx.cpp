#include "data/sources/idx.h"

#include "core/error.h"

namespace trainer::data {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803;  // unsigned bytes, three dimensions
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // unsigned bytes, one dimension

std::uint32_t big_endian(Bytes bytes, std::size_t offset) {
  return std::uint32_t{bytes[offset]} << 24 | std::uint32_t{bytes[offset + 1]} << 16 |
         std::uint32_t{bytes[offset + 2]} << 8 | std::uint32_t{bytes[offset + 3]};
}

void require_header(const IdxFile& file, std::size_t bytes, std::uint32_t magic, const char* what) {
  if (file.bytes.size() >= bytes && big_endian(file.bytes, 0) == magic) return;
  std::string hint;
  if (file.bytes.size() >= 2 && file.bytes[0] == 0x1f && file.bytes[1] == 0x8b)
    hint = "; it is compressed, run gunzip on it";
  throw Error(Exit::data, file.name + ": this is no IDX file of " + what + hint);
}

}  // namespace

IdxSource::IdxSource(std::string kind, const IdxFile& images, const IdxFile& labels,
                     std::vector<std::string> class_names, std::shared_ptr<void> owner)
    : kind_(std::move(kind)), class_names_(std::move(class_names)), owner_(std::move(owner)) {
  require_header(images, 16, kImagesMagic, "images");
  require_header(labels, 8, kLabelsMagic, "labels");
  const std::uint64_t count = big_endian(images.bytes, 4);
  const std::uint64_t height = big_endian(images.bytes, 8);
  const std::uint64_t width = big_endian(images.bytes, 12);
  if (count == 0 || height == 0 || width == 0 || height > 65535 || width > 65535) {
    throw Error(Exit::data, images.name + ": the header asks for " + std::to_string(count) +
                                " images of " + std::to_string(height) + "x" +
                                std::to_string(width) + " pixels");
  }
  require_size(images.name, images.bytes.size(), 16 + count * height * width);
  if (big_endian(labels.bytes, 4) != count) {
    throw Error(Exit::data, labels.name + ": it has " +
                                std::to_string(big_endian(labels.bytes, 4)) + " labels, but " +
                                images.name + " has " + std::to_string(count) + " images");
  }
  require_size(labels.name, labels.bytes.size(), 8 + count);
  count_ = static_cast<std::int64_t>(count);
  height_ = static_cast<int>(height);
  width_ = static_cast<int>(width);
  pixels_ = images.bytes.subspan(16);
  labels_ = labels.bytes.subspan(8);
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    if (labels_[i] < class_names_.size()) continue;
    throw Error(Exit::data, labels.name + ": sample " + std::to_string(i) + " has the label " +
                                std::to_string(labels_[i]) + ", but " + kind_ + " has " +
                                std::to_string(class_names_.size()) + " classes");
  }
  fingerprint_ = hash_bytes(labels.bytes, hash_bytes(images.bytes, 0));
}

Raw IdxSource::fetch(std::int64_t index, std::vector<std::uint8_t>& /*buffer*/) const {
  const std::size_t bytes = static_cast<std::size_t>(height_) * static_cast<std::size_t>(width_);
  return {pixels_.subspan(static_cast<std::size_t>(index) * bytes, bytes), height_, width_, 1};
}

std::int64_t IdxSource::label(std::int64_t index) const {
  return labels_[static_cast<std::size_t>(index)];
}

std::string IdxSource::sample_name(std::int64_t index) const {
  return "sample " + std::to_string(index) + " of " + kind_;
}

std::string IdxSource::describe() const {
  return kind_ + ": " + std::to_string(count_) + " grey images of " + std::to_string(height_) +
         "x" + std::to_string(width_) + ", " + std::to_string(classes()) + " classes";
}

std::vector<std::string> digit_names() {
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

}  // namespace trainer::data

#include "data/images/pnm.h"

#include <algorithm>
#include <array>

#include "data/images/colour_math.h"
#include "data/images/header_formats.h"
#include "data/images/header_reader.h"

namespace trainer::data {
namespace {

bool is_space(std::uint32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(std::uint32_t c) { return c >= '0' && c <= '9'; }

struct Pnm {
  bool text = false;
  bool bitmap = false;  // one bit a pixel, 1 for black
  int components = 1;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t most = 1;  // the value of full brightness
  std::size_t pixels = 0;  // where they begin
};

// Goes over spaces and comments.
void skip_spaces(const HeaderReader& file, std::size_t& at) {
  while (is_space(file.u8(at)) || file.u8(at) == '#') {
    if (file.u8(at) == '#')
      while (file.u8(at) != '\n' && file.u8(at) != '\r') ++at;
    ++at;
  }
}

// The number at `at`, after spaces and comments; `at` goes behind it. The last number of a file
// need not be followed by anything.
std::uint32_t number(const HeaderReader& file, std::size_t& at) {
  skip_spaces(file, at);
  if (!is_digit(file.u8(at))) file.damaged("a number is missing");
  constexpr std::uint32_t kMost = 1U << 30;
  std::uint32_t value = 0;
  for (; at < file.size() && is_digit(file.u8(at)); ++at) {
    if (value > kMost / 10) file.damaged("a number is too large");
    value = 10 * value + (file.u8(at) - '0');
  }
  return value;
}

Pnm parse(const HeaderReader& file) {
  const std::uint32_t kind = file.u8(1) - '0';
  Pnm pnm;
  pnm.text = kind <= 3;
  pnm.bitmap = kind == 1 || kind == 4;
  pnm.components = kind == 3 || kind == 6 ? 3 : 1;
  std::size_t at = 2;
  pnm.width = number(file, at);
  pnm.height = number(file, at);
  if (!pnm.bitmap) pnm.most = number(file, at);
  if (pnm.most == 0 || pnm.most > 65535)
    file.damaged("a largest value of " + std::to_string(pnm.most));
  pnm.pixels = at + 1;
  return pnm;
}

// The file's values from first to last, whatever its kind.
class Values {
 public:
  Values(const HeaderReader& file, const Pnm& pnm) : file_(file), pnm_(pnm), at_(pnm.pixels) {}

  std::uint32_t next() {
    if (pnm_.bitmap) return next_bit();
    std::uint32_t value = 0;
    if (pnm_.text) {
      value = number(file_, at_);
    } else if (pnm_.most > 255) {
      value = file_.u16(at_);
      at_ += 2;
    } else {
      value = file_.u8(at_++);
    }
    return std::min(value, pnm_.most);
  }

  // Bits are padded to whole bytes.
  void end_row() {
    if (bit_ != 0) ++at_;
    bit_ = 0;
  }

 private:
  std::uint32_t next_bit() {
    if (!pnm_.text) {
      const std::uint32_t bit = file_.u8(at_) >> (7 - bit_) & 1;
      bit_ = (bit_ + 1) % 8;
      if (bit_ == 0) ++at_;
      return 1 - bit;
    }
    // Digits of a bitmap may stand without spaces.
    skip_spaces(file_, at_);
    const std::uint32_t digit = file_.u8(at_++) - '0';
    if (digit > 1) file_.damaged("a bit that is neither 0 nor 1");
    return 1 - digit;
  }

  const HeaderReader& file_;
  const Pnm& pnm_;
  std::size_t at_;
  unsigned bit_ = 0;  // of the byte at at_
};

// Before memory is taken for the pixels. A number as text takes a byte at least.
void require_whole(const HeaderReader& file, const Pnm& pnm) {
  std::uint64_t row = std::uint64_t{pnm.width} * static_cast<unsigned>(pnm.components);
  if (pnm.bitmap && !pnm.text) row = (row + 7) / 8;
  if (!pnm.text && pnm.most > 255) row *= 2;
  if (row > file.size() || !file.holds(pnm.pixels, row * pnm.height))
    file.damaged("it ends before its last pixel");
}

}  // namespace

FileHeader pnm_header(Bytes bytes) {
  const Pnm pnm = parse(HeaderReader(bytes, false, "PNM"));
  FileHeader header;
  header.width = pnm.width;
  header.height = pnm.height;
  header.components = pnm.components;
  header.bits = pnm.bitmap ? 1 : pnm.most > 255 ? 16 : 8;
  return header;
}

void decode_pnm(Bytes bytes, int channels, Image& image) {
  const HeaderReader file(bytes, false, "PNM");
  const Pnm pnm = parse(file);
  require_whole(file, pnm);
  image.height = static_cast<int>(pnm.height);
  image.width = static_cast<int>(pnm.width);
  image.channels = channels;
  image.pixels.resize(std::size_t{pnm.height} * pnm.width * static_cast<std::size_t>(channels));
  std::uint8_t* to = image.pixels.data();
  Values values(file, pnm);
  for (std::uint32_t y = 0; y < pnm.height; ++y) {
    for (std::uint32_t x = 0; x < pnm.width; ++x) {
      std::array<std::uint8_t, 3> rgb{};
      for (int c = 0; c < pnm.components; ++c)
        rgb[static_cast<std::size_t>(c)] =
            static_cast<std::uint8_t>((values.next() * 255 + pnm.most / 2) / pnm.most);
      if (pnm.components == 1) rgb = {rgb[0], rgb[0], rgb[0]};
      if (channels == 1)
        *to++ = static_cast<std::uint8_t>(colour::luma(rgb.data()));
      else
        to = std::copy_n(rgb.data(), 3, to);
    }
    values.end_row();
  }
}

}  // namespace trainer::data

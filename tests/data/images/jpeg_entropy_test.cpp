// The fast reader of Huffman codes against libjpeg-turbo's own, on files that are made here.
#include "data/images/jpeg_entropy.h"

// jpeglib.h needs FILE and size_t declared before it.
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include <gtest/gtest.h>

#include <csetjmp>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/images/jpeg.h"

namespace trainer::data {
namespace {

struct Variant {
  std::string name;
  int channels = 3;
  int horizontal = 1, vertical = 1;  // luma samples for one of chroma
  int quality = 95;
  unsigned restart = 0;  // MCUs
  bool optimised = false;
  int width = 61, height = 43;
  double noise = 60;  // strength; large values give long codes
};

std::vector<std::uint8_t> make_file(const Variant& variant, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, variant.noise);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(variant.width * variant.channels));
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = static_cast<JDIMENSION>(variant.width);
  info.image_height = static_cast<JDIMENSION>(variant.height);
  info.input_components = variant.channels;
  info.in_color_space = variant.channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, variant.quality, TRUE);
  info.comp_info[0].h_samp_factor = variant.horizontal;
  info.comp_info[0].v_samp_factor = variant.vertical;
  info.restart_interval = variant.restart;
  info.optimize_coding = variant.optimised ? TRUE : FALSE;
  jpeg_start_compress(&info, TRUE);
  for (int y = 0; y < variant.height; ++y) {
    for (std::size_t x = 0; x < row.size(); ++x) {
      const double value = 128 + noise(random) + 40.0 * ((y / 9 + static_cast<int>(x) / 20) % 3);
      row[x] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    }
    JSAMPROW pointer = row.data();
    jpeg_write_scanlines(&info, &pointer, 1);
  }
  jpeg_finish_compress(&info);
  std::vector<std::uint8_t> file(memory, memory + size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return file;
}

// The library alone, in plain C: nothing is destroyed by its jumps.
struct Reference {
  jpeg_error_mgr errors;
  std::jmp_buf jump;
  bool ends_early;
};

extern "C" void stop(j_common_ptr info) {
  std::longjmp(reinterpret_cast<Reference*>(info->err)->jump, 1);
}
extern "C" void note(j_common_ptr info, int level) {
  auto* reference = reinterpret_cast<Reference*>(info->err);
  if (level < 0 && (info->err->msg_code == JWRN_HIT_MARKER || info->err->msg_code == JWRN_JPEG_EOF))
    reference->ends_early = true;
}

bool decode_rows(jpeg_decompress_struct& info, Reference& reference, const std::uint8_t* file,
                 unsigned long size, std::uint8_t* pixels) {
  if (setjmp(reference.jump) != 0) return false;
  jpeg_mem_src(&info, file, size);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = pixels + std::size_t{info.output_scanline} * info.output_width * 3;
    jpeg_read_scanlines(&info, &row, 1);
  }
  return true;
}

// nullopt where the file is damaged in a way that the decoder must report.
std::optional<std::vector<std::uint8_t>> decode_alone(const std::vector<std::uint8_t>& file,
                                                      std::size_t pixels) {
  std::vector<std::uint8_t> rgb(3 * pixels);
  Reference reference{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&reference.errors);
  reference.errors.error_exit = stop;
  reference.errors.emit_message = note;
  jpeg_create_decompress(&info);
  const bool done = decode_rows(info, reference, file.data(), file.size(), rgb.data());
  jpeg_destroy_decompress(&info);
  if (!done || reference.ends_early) return std::nullopt;
  return rgb;
}

std::optional<std::vector<std::uint8_t>> decode_fast(JpegDecoder& decoder,
                                                     const std::vector<std::uint8_t>& file,
                                                     const Rectangle& window) {
  Image image;
  try {
    decoder.open(file);
    decoder.read(window, 1, image);
  } catch (const Error&) {
    return std::nullopt;
  }
  return image.pixels;
}

std::vector<std::uint8_t> cut(const std::vector<std::uint8_t>& rgb, int width,
                              const Rectangle& window) {
  std::vector<std::uint8_t> part;
  for (int y = window.top; y < window.top + window.height; ++y) {
    const auto* row = rgb.data() + 3 * (y * width + window.left);
    part.insert(part.end(), row, row + 3 * window.width);
  }
  return part;
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all{
      {.name = "full"},
      {.name = "half", .horizontal = 2, .vertical = 2},
      {.name = "across", .horizontal = 2},
      {.name = "down", .vertical = 2},
      {.name = "grey", .channels = 1},
      {.name = "low", .quality = 10},
      {.name = "best", .quality = 100, .noise = 200},
      {.name = "optimised", .optimised = true},
      {.name = "optimised best", .quality = 100, .optimised = true, .noise = 120},
      {.name = "flat", .optimised = true, .noise = 0},
      {.name = "restarts", .restart = 3},
      {.name = "restarts half", .horizontal = 2, .vertical = 2, .restart = 1},
      {.name = "one pixel", .width = 1, .height = 1},
      {.name = "wide", .horizontal = 2, .vertical = 2, .width = 403, .height = 17},
  };
  return all;
}

TEST(JpegEntropy, ReadsWhatTheLibraryReads) {
  JpegDecoder decoder(DecodeOptions{});
  for (const Variant& variant : variants()) {
    for (unsigned seed = 0; seed < 4; ++seed) {
      const auto file = make_file(variant, seed);
      const Rectangle whole{0, 0, variant.height, variant.width};
      const auto wanted = decode_alone(
          file, static_cast<std::size_t>(variant.height) * static_cast<std::size_t>(variant.width));
      ASSERT_TRUE(wanted) << variant.name;
      EXPECT_TRUE(decode_fast(decoder, file, whole) == wanted) << variant.name;
      std::mt19937 random(seed);
      for (int i = 0; i < 8; ++i) {
        Rectangle window;
        window.height = 1 + static_cast<int>(random() % static_cast<unsigned>(variant.height));
        window.width = 1 + static_cast<int>(random() % static_cast<unsigned>(variant.width));
        window.top =
            static_cast<int>(random() % static_cast<unsigned>(variant.height - window.height + 1));
        window.left =
            static_cast<int>(random() % static_cast<unsigned>(variant.width - window.width + 1));
        EXPECT_TRUE(decode_fast(decoder, file, window) == cut(*wanted, variant.width, window))
            << variant.name << ' ' << window.top << ' ' << window.left << ' ' << window.height
            << 'x' << window.width;
      }
    }
  }
}

// Bits that are turned over anywhere behind the headers.
TEST(JpegEntropy, DamagedDataGivesWhatTheLibraryGives) {
  JpegDecoder decoder(DecodeOptions{});
  std::mt19937 random(7);
  int refused = 0, changed = 0;
  for (const Variant& variant : variants()) {
    const auto file = make_file(variant, 1);
    const std::size_t pixels =
        static_cast<std::size_t>(variant.height) * static_cast<std::size_t>(variant.width);
    const auto good = decode_alone(file, pixels);
    const std::size_t scan = file.size() / 2;
    for (int i = 0; i < 150; ++i) {
      auto damaged = file;
      for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
        const std::size_t at = scan + random() % (file.size() - 2 - scan);
        damaged[at] = static_cast<std::uint8_t>(damaged[at] ^ (1U << random() % 8));
      }
      const auto wanted = decode_alone(damaged, pixels);
      const auto got = decode_fast(decoder, damaged, {0, 0, variant.height, variant.width});
      EXPECT_TRUE(got == wanted) << variant.name << ' ' << i;
      refused += wanted ? 0 : 1;
      changed += wanted && wanted != good ? 1 : 0;
    }
  }
  // Both kinds have to occur for the test to say something.
  EXPECT_GT(refused, 20);
  EXPECT_GT(changed, 200);
}

// A scan that goes on without an end of its data: more is asked for than there is.
TEST(JpegEntropy, MissingDataIsReported) {
  JpegDecoder decoder(DecodeOptions{});
  const Variant variant{.name = "full"};
  const auto file = make_file(variant, 1);
  for (const double share : {0.5, 0.7, 0.95}) {
    std::vector<std::uint8_t> cut_short(
        file.begin(),
        file.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(file.size())));
    cut_short.insert(cut_short.end(), {0xFF, JPEG_EOI});
    EXPECT_FALSE(decode_fast(decoder, cut_short, {0, 0, variant.height, variant.width})) << share;
  }
}

}  // namespace
}  // namespace trainer::data

// The boundary of the module `libtrainer_images.so`: plain C, so that the module and the binary may
// be built apart. No exception crosses it.
#pragma once

#include <cstddef>

extern "C" {

typedef struct TrainerImagesOptions {
  int channels;                 // of the result: 3 (RGB) or 1 (luma)
  unsigned char background[3];  // RGB, shows through what is transparent
  int premultiplied;            // the decoder gives colours multiplied by their alpha
  int transparent_grey;         // in a grey picture the one value that is transparent, or -1
} TrainerImagesOptions;

// Gives memory for height * width * channels bytes, or null.
typedef unsigned char* (*TrainerImagesAllocate)(void* context, int height, int width);

// Decodes an image of a format that OpenCV knows, into rows in memory from `allocate`; 16-bit
// values become v * 255 / 65535, rounded (Pillow cuts them off or clips them). A TIFF's orientation
// is applied, no other. Returns 0, or 1 with the reason in `message` (zero-terminated, cut to
// `message_size`).
typedef int (*TrainerImagesDecode)(const unsigned char* bytes, std::size_t size,
                                   const TrainerImagesOptions* options,
                                   TrainerImagesAllocate allocate, void* context, char* message,
                                   std::size_t message_size);

// A line of printable ASCII in the rectangle at (left, top), cut off where it is too wide.
typedef struct TrainerImagesCaption {
  int left, top, width, height;
  const char* text;
} TrainerImagesCaption;

// Writes RGB rows, with the captions drawn over them in black, as a PNG file. Returns 0, or 1 with
// the reason in `message`; there may be part of a file then.
typedef int (*TrainerImagesWritePng)(const unsigned char* rgb, int height, int width,
                                     const TrainerImagesCaption* captions, std::size_t count,
                                     const char* path, char* message, std::size_t message_size);
}

// The functions' names, changed with their signatures.
inline constexpr const char* kTrainerImagesDecode = "trainer_images_decode_2";
inline constexpr const char* kTrainerImagesWritePng = "trainer_images_write_png_1";

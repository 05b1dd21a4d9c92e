// The boundary of the module `libtrainer_images.so`: plain C, so that the module and the binary may
// be built apart. No exception crosses it.
#pragma once

#include <cstddef>

extern "C" {

// Gives memory for height * width * 3 bytes, or null.
typedef unsigned char* (*TrainerImagesAllocate)(void* context, int height, int width);

// Decodes an image of a format that OpenCV knows, into RGB rows in memory from `allocate`. Returns
// 0, or 1 with the reason in `message` (zero-terminated, cut to `message_size`).
typedef int (*TrainerImagesDecode)(const unsigned char* bytes, std::size_t size,
                                   TrainerImagesAllocate allocate, void* context, char* message,
                                   std::size_t message_size);
}

// The function's name, changed with its signature.
inline constexpr const char* kTrainerImagesDecode = "trainer_images_decode_1";

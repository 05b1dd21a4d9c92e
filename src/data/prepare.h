// From a step's 8-bit images to model input: the task, and its arithmetic, which the CPU's code and
// the CUDA kernel share (compiled without fused multiply-add: both give the same bits). No torch
// here.
#pragma once

#include <cstdint>

#include "data/images/anywhere.h"

namespace trainer::data {

enum class InputType { float32, bfloat16, float16 };

// How a micro-batch becomes model input: value = (pixel - shift) * factor by channel, erased pixels
// 0, then mixed with the partner's (position p with p^1 of the step's samples), then cast.
struct Prepare {
  const std::uint8_t* images;  // u8 [size, height, width, channels]: the whole step
  const std::int32_t* erase;   // [size, 4], or null
  int height, width, channels;
  float shift[4], factor[4];
  std::int64_t size, begin, end;
  int mix;                                       // 0 none, 1 mixup, 2 cutmix
  float own, other;                              // weights of mixup
  int box_top, box_left, box_height, box_width;  // of cutmix
  bool channels_last;
  InputType type;
  void* input;  // [end - begin, channels, height, width], in the memory order asked for
};
// Does rows [first, last) of the task's micro-batch on this thread; float32 only.
void prepare(const Prepare& task, std::int64_t first, std::int64_t last);

namespace internal {

TRAINER_ANYWHERE bool is_inside(int y, int x, int top, int left, int height, int width) {
  return y >= top && y < top + height && x >= left && x < left + width;
}

TRAINER_ANYWHERE bool is_erased(const Prepare& task, std::int64_t sample, int y, int x) {
  if (task.erase == nullptr) return false;
  const std::int32_t* box = task.erase + 4 * sample;
  return is_inside(y, x, box[0], box[1], box[2], box[3]);
}

// Normalised, then erased.
TRAINER_ANYWHERE float value_of(const Prepare& task, std::int64_t sample, int pixel, int y, int x,
                                int channel) {
  if (is_erased(task, sample, y, x)) return 0.0F;
  const std::int64_t at =
      (sample * task.height * task.width + pixel) * static_cast<std::int64_t>(task.channels) +
      channel;
  return (static_cast<float>(task.images[at]) - task.shift[channel]) * task.factor[channel];
}

TRAINER_ANYWHERE std::int64_t partner_of(const Prepare& task, std::int64_t sample) {
  const std::int64_t partner = sample ^ 1;
  return partner < task.size ? partner : task.size - 1;
}

// Mixed with the partner's.
TRAINER_ANYWHERE float mixed_value(const Prepare& task, std::int64_t sample, int pixel, int y,
                                   int x, int channel) {
  const bool from_partner = task.mix == 2 && is_inside(y, x, task.box_top, task.box_left,
                                                       task.box_height, task.box_width);
  const std::int64_t partner = partner_of(task, sample);
  const float value = value_of(task, from_partner ? partner : sample, pixel, y, x, channel);
  if (task.mix != 1) return value;
  return value * task.own + value_of(task, partner, pixel, y, x, channel) * task.other;
}

}  // namespace internal
}  // namespace trainer::data

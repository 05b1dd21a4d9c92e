#include "data/prepare.h"

#include <array>
#include <cstddef>

namespace trainer::data {
namespace {

// Places of a value in the input: of its sample's first value, and between neighbours.
struct Strides {
  std::int64_t pixel, channel;
};

Strides strides_of(const Prepare& task) {
  if (task.channels_last) return {task.channels, 1};
  return {1, static_cast<std::int64_t>(task.height) * task.width};
}

// The values that the 256 levels of a channel become.
using Table = std::array<float, 256>;

Table table_of(const Prepare& task, int channel) {
  Table table{};
  for (int level = 0; level < 256; ++level) {
    table[static_cast<std::size_t>(level)] =
        (static_cast<float>(level) - task.shift[channel]) * task.factor[channel];
  }
  return table;
}

void normalise(const Prepare& task, std::int64_t row, const std::array<Table, 4>& tables) {
  const std::int64_t pixels = static_cast<std::int64_t>(task.height) * task.width;
  const std::uint8_t* from = task.images + (task.begin + row) * pixels * task.channels;
  float* to = static_cast<float*>(task.input) + row * pixels * task.channels;
  const Strides strides = strides_of(task);
  for (int channel = 0; channel < task.channels; ++channel) {
    const Table& table = tables[static_cast<std::size_t>(channel)];
    float* value = to + channel * strides.channel;
    const std::uint8_t* level = from + channel;
    for (std::int64_t i = 0; i < pixels; ++i, level += task.channels, value += strides.pixel)
      *value = table[*level];
  }
}

void mix(const Prepare& task, std::int64_t row) {
  const std::int64_t pixels = static_cast<std::int64_t>(task.height) * task.width;
  float* to = static_cast<float*>(task.input) + row * pixels * task.channels;
  const Strides strides = strides_of(task);
  int pixel = 0;
  for (int y = 0; y < task.height; ++y) {
    for (int x = 0; x < task.width; ++x, ++pixel) {
      for (int channel = 0; channel < task.channels; ++channel) {
        to[pixel * strides.pixel + channel * strides.channel] =
            internal::mixed_value(task, task.begin + row, pixel, y, x, channel);
      }
    }
  }
}

}  // namespace

void prepare(const Prepare& task, std::int64_t first, std::int64_t last) {
  const bool plain = task.mix == 0 && task.erase == nullptr;
  std::array<Table, 4> tables{};
  for (int channel = 0; plain && channel < task.channels; ++channel)
    tables[static_cast<std::size_t>(channel)] = table_of(task, channel);
  for (std::int64_t row = first; row < last; ++row) {
    if (plain)
      normalise(task, row, tables);
    else
      mix(task, row);
  }
}

}  // namespace trainer::data

// What the loader reads from: a finite, randomly accessible set of samples that fills memory the
// loader owns. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/experiment.h"

namespace trainer::data {

// An 8-bit image, rows top to bottom, channels interleaved (HWC).
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;  // height * width * channels
  std::int64_t bytes_read = 0;       // that `Source::read` took in to make it (encoded, or pixels)
};

// Where samples come from. Read-only after construction; `read` is called from many threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  // In the order of their indices; empty where classes have no names.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual std::int64_t classes() const = 0;
  // Of every sample: 3 (RGB), or 1 where every sample of the source is grey.
  virtual int channels() const = 0;
  // Decoded sample `index` into `image` (its capacity is reused), with `channels()`. Throws
  // Error(data) naming the file, its class and the reason.
  virtual void read(std::int64_t index, Image& image) const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  // For messages: the sample's file, or "sample 17 of <kind>".
  virtual std::string sample_name(std::int64_t index) const = 0;
  // A line for the log: kind, samples, classes, ignored files.
  virtual std::string describe() const = 0;
  // Changes when the samples or their order change; a resumed run compares it.
  virtual std::uint64_t fingerprint() const = 0;
};

// Throws Error(data) where the path is missing, unreadable, empty or malformed.
std::unique_ptr<Source> make_source(const config::Source& config, std::uint64_t seed);

}  // namespace trainer::data

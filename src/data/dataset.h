// What the loader reads from: a finite, randomly accessible set of samples. No torch here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/experiment.h"

namespace trainer::data {

using Bytes = std::span<const std::uint8_t>;

// A rectangle in pixels; empty where height is 0.
struct Rectangle {
  int top = 0, left = 0, height = 0, width = 0;
  bool operator==(const Rectangle&) const = default;
};

// An 8-bit image, rows top to bottom, channels interleaved (HWC).
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;  // height * width * channels
};

// A sample as its source keeps it: the content of an image file, or pixels.
struct Raw {
  Bytes bytes;
  int height = 0, width = 0, channels = 0;  // of pixels; all 0 where an image file is still encoded
  bool encoded() const { return channels == 0; }
};

// Where samples come from. Read-only after construction; used from many threads.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::int64_t size() const = 0;
  // In the order of their indices; empty where classes have no names.
  virtual const std::vector<std::string>& class_names() const = 0;
  virtual std::int64_t classes() const = 0;
  // Whether `fetch` gives image files. Else it gives pixels with `channels()`.
  virtual bool encoded() const = 0;
  // 3 (RGB), or 1 where every sample is grey; 3 for image files, which are converted to what is
  // wanted.
  virtual int channels() const = 0;
  // Sample `index`. The bytes lie in `buffer` (whose capacity is reused) or in memory of the source
  // that lives as long as it, and stay valid until `buffer` changes. Throws Error(data) naming the
  // file, its class and the reason; the message does not start a sentence of its own.
  virtual Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
  // How much the sample counts in the loss.
  virtual float weight(std::int64_t) const { return 1.0F; }
  // Whether some sample's weight is not 1.
  virtual bool weighted() const { return false; }
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

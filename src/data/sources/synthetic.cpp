// Random images and labels, a pure function of (seed, index): no input at all, for measuring the
// rest of a run.
#include <cstring>

#include "core/error.h"
#include "core/random.h"
#include "data/sources/files.h"
#include "data/sources/sources.h"

namespace trainer::data {
namespace {

// The SplitMix64 generator (Steele et al., OOPSLA 2014): a counter and a finaliser, 8 bytes in
// about a nanosecond, where Philox would be what limits a run on many GPUs.
class SplitMix {
 public:
  explicit SplitMix(std::uint64_t counter) : counter_(counter) {}
  std::uint64_t operator()() {
    counter_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t value = counter_;
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
    return value ^ (value >> 31);
  }

 private:
  std::uint64_t counter_;
};

void fill(std::uint64_t counter, std::vector<std::uint8_t>& bytes) {
  SplitMix next(counter);
  std::uint64_t value = 0;
  std::uint8_t* to = bytes.data();
  const std::uint8_t* end = to + bytes.size() / sizeof value * sizeof value;
  for (; to != end; to += sizeof value) {
    value = next();
    std::memcpy(to, &value, sizeof value);
  }
  value = next();
  std::memcpy(to, &value, bytes.size() % sizeof value);
}

class SyntheticSource : public Source {
 public:
  SyntheticSource(const config::Synthetic& config, std::uint64_t seed)
      : samples_(config.samples), classes_(config.classes), seed_(seed) {
    if (config.shape.size() != 3 || (config.shape[0] != 1 && config.shape[0] != 3) ||
        config.shape[1] < 1 || config.shape[2] < 1 || samples_ < 1 || classes_ < 1) {
      throw Error(Exit::data,
                  "synthetic: samples and classes must be positive, and shape must be [channels, "
                  "height, width] with 1 or 3 channels");
    }
    channels_ = static_cast<int>(config.shape[0]);
    height_ = static_cast<int>(config.shape[1]);
    width_ = static_cast<int>(config.shape[2]);
  }

  std::int64_t size() const override { return samples_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  std::int64_t classes() const override { return classes_; }
  bool encoded() const override { return false; }
  int channels() const override { return channels_; }

  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    buffer.resize(static_cast<std::size_t>(channels_) * static_cast<std::size_t>(height_) *
                  static_cast<std::size_t>(width_));
    fill(stream(index, 0).next_u64(), buffer);
    return {buffer, height_, width_, channels_};
  }

  std::int64_t label(std::int64_t index) const override {
    return static_cast<std::int64_t>(stream(index, 1).below(static_cast<std::uint64_t>(classes_)));
  }

  std::string sample_name(std::int64_t index) const override {
    return "sample " + std::to_string(index) + " of synthetic";
  }

  std::string describe() const override {
    return "synthetic: " + std::to_string(samples_) + " random images of " +
           std::to_string(channels_) + "x" + std::to_string(height_) + "x" +
           std::to_string(width_) + ", " + std::to_string(classes_) + " classes";
  }

  std::uint64_t fingerprint() const override { return hash_text(describe(), seed_); }

 private:
  Stream stream(std::int64_t index, std::uint64_t part) const {
    return {seed_, StreamUse::synthetic, static_cast<std::uint64_t>(index), part};
  }

  std::int64_t samples_;
  std::int64_t classes_;
  std::uint64_t seed_;
  int channels_ = 0;
  int height_ = 0;
  int width_ = 0;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<Source> make_synthetic(const config::Synthetic& config, std::uint64_t seed) {
  return std::make_unique<SyntheticSource>(config, seed);
}

}  // namespace trainer::data

#include "data/sample_maker.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/error.h"
#include "data/images/colour.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time it lives to a sum.
class Timed {
 public:
  explicit Timed(double& sum) : sum_(sum), started_(Clock::now()) {}
  ~Timed() { sum_ += std::chrono::duration<double, std::milli>(Clock::now() - started_).count(); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  double& sum_;
  Clock::time_point started_;
};

// A source's pixels, or a cache's, as a picture with `channels`; `converted` is memory for it.
ImageView view_of_pixels(const Raw& raw, int channels, Image& converted) {
  ImageView view{raw.bytes.data(),
                 0,
                 0,
                 raw.height,
                 raw.width,
                 raw.channels,
                 static_cast<std::size_t>(raw.width) * static_cast<std::size_t>(raw.channels)};
  if (raw.channels == channels) return view;
  convert_channels(raw.bytes, raw.height, raw.width, raw.channels, channels, converted);
  return view_of(converted);
}

// A crop that lies beside the picture needs no pixel, but a decoder has to be asked for some.
Rectangle region_of(const Resampling& geometry) {
  return geometry.window.height == 0 ? Rectangle{0, 0, 1, 1} : needed(geometry);
}

}  // namespace

StageTimes& StageTimes::operator+=(const StageTimes& other) {
  read_ms += other.read_ms;
  decode_ms += other.decode_ms;
  transform_ms += other.transform_ms;
  read_bytes += other.read_bytes;
  return *this;
}

DecodeOptions decode_options(const config::Source& config, int channels) {
  DecodeOptions options;
  options.channels = channels;
  std::visit(
      [&options](const auto& kind) {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_base_of_v<config::ImagesCommon, Kind>) {
          const auto& background = kind.background;
          for (std::size_t i = 0; i < options.background.size(); ++i) {
            options.background[i] =
                static_cast<std::uint8_t>(background[background.size() == 1 ? 0 : i]);
          }
          options.max_pixels = kind.max_pixels;
          options.exif_orientation = kind.exif_orientation;
        }
      },
      config);
  return options;
}

SampleMaker::SampleMaker(const Source& source, const Pipeline& pipeline,
                         const SampleOptions& options)
    : source_(source), pipeline_(pipeline), options_(options) {
  options_.decode.channels = pipeline.channels();
}

std::string SampleMaker::name_of(std::int64_t index) const {
  const std::string name = source_.sample_name(index);
  const auto label = static_cast<std::size_t>(source_.label(index));
  if (label >= source_.class_names().size()) return name;
  return name + " (class \"" + printable(source_.class_names()[label]) + "\")";
}

// What the action throws, with the sample's name before it.
template <class Do>
void SampleMaker::named(std::int64_t index, Do&& action) const {
  try {
    action();
  } catch (const Error& error) {
    throw Error(error.code(), name_of(index) + ": " + error.what());
  }
}

void SampleMaker::open(std::int64_t epoch, std::int64_t index, Thread& thread) const {
  {
    const Timed timed(thread.times_.read_ms);
    thread.raw_ = source_.fetch(index, thread.buffer_);
  }
  thread.times_.read_bytes += static_cast<std::int64_t>(thread.raw_.bytes.size());
  named(index, [&] {
    int height = thread.raw_.height;
    int width = thread.raw_.width;
    if (thread.raw_.encoded()) {
      const Timed timed(thread.times_.decode_ms);
      thread.info_ = thread.decoder_.open(thread.raw_.bytes);
      height = thread.info_.height;
      width = thread.info_.width;
    }
    Stream random(options_.seed, StreamUse::augmentation,
                  static_cast<std::uint64_t>(options_.augment ? epoch : 0),
                  static_cast<std::uint64_t>(index));
    pipeline_.plan(height, width, random, thread.plan_);
  });
}

// The part of the picture that the plan needs. `geometry` becomes the one for a reduced picture.
ImageView SampleMaker::decode(Thread& thread, Resampling& geometry) const {
  const Timed timed(thread.times_.decode_ms);
  if (!thread.raw_.encoded())
    return view_of_pixels(thread.raw_, options_.decode.channels, thread.converted_);
  const int shrink = thread.info_.format == Format::jpeg ? reduction(geometry) : 1;
  const Part part = thread.decoder_.read(region_of(geometry), shrink, thread.picture_);
  if (part.shrink != 1) geometry = reduced(geometry, part.shrink);
  return view_of(thread.picture_, part.top, part.left);
}

void SampleMaker::make(std::int64_t index, Thread& thread, std::uint8_t* to) const {
  named(index, [&] {
    const Resampling full = thread.plan_.geometry;
    const ImageView picture = decode(thread, thread.plan_.geometry);
    const Timed timed(thread.times_.transform_ms);
    data::make(thread.plan_, picture, thread.scratch_, to);
    thread.plan_.geometry = full;
  });
}

void SampleMaker::take_bytes(Thread& thread, std::vector<std::uint8_t>& bytes) {
  if (thread.raw_.bytes.data() == thread.buffer_.data() &&
      thread.raw_.bytes.size() == thread.buffer_.size())
    bytes.swap(thread.buffer_);
  else
    bytes.assign(thread.raw_.bytes.begin(), thread.raw_.bytes.end());
  thread.raw_ = {};
}

}  // namespace trainer::data

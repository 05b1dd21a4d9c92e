// From a sample's index to its pixels: read, plan, decode what is needed, transform. No torch here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/images/decode.h"
#include "data/images/transforms.h"

namespace trainer::data {

// Of one thread's, or of all threads', work.
struct StageTimes {
  double read_ms = 0;       // fetching the bytes
  double decode_ms = 0;     // header and pixels
  double transform_ms = 0;  // crop, resize and all that follows
  std::int64_t read_bytes = 0;

  StageTimes& operator+=(const StageTimes& other);
};

struct SampleOptions {
  DecodeOptions decode;
  std::uint64_t seed = 0;
  // false: evaluation, where no random transform is expected; one that is there draws the same
  // numbers in every epoch.
  bool augment = true;
};

// What the sources of image files say of decoding; the rest is by default.
DecodeOptions decode_options(const config::Source& config, int channels);

class SampleMaker {
 public:
  // One thread's decoder and memory, and the sample it is at.
  class Thread {
   public:
    explicit Thread(const SampleMaker& maker) : decoder_(maker.options_.decode) {}

    const SamplePlan& plan() const { return plan_; }
    const Raw& raw() const { return raw_; }
    const ImageInfo& info() const { return info_; }  // of an encoded sample
    const StageTimes& times() const { return times_; }
    void clear_times() { times_ = {}; }

   private:
    friend class SampleMaker;
    Decoder decoder_;
    std::vector<std::uint8_t> buffer_;
    Raw raw_;
    ImageInfo info_;
    SamplePlan plan_;
    Image picture_;    // decoded
    Image converted_;  // to the wanted channels
    PixelScratch scratch_;
    StageTimes times_;
  };

  // `source` and `pipeline` outlive it; the pipeline's channels are what images are converted to.
  SampleMaker(const Source& source, const Pipeline& pipeline, const SampleOptions& options);

  // Reads sample `index` and plans it for `epoch`: afterwards its final size is known. Throws
  // Error(data) naming the sample.
  void open(std::int64_t epoch, std::int64_t index, Thread& thread) const;
  // The pixels of the sample that is open into `to`: what its plan says. Throws Error(data) naming
  // the sample.
  void make(std::int64_t index, Thread& thread, std::uint8_t* to) const;

  // The bytes of the encoded sample that is open, into `bytes`; it cannot be made afterwards.
  static void take_bytes(Thread& thread, std::vector<std::uint8_t>& bytes);

  // A sample and its class, for messages.
  std::string name_of(std::int64_t index) const;

  const Source& source() const { return source_; }
  const Pipeline& pipeline() const { return pipeline_; }

 private:
  template <class Do>
  void named(std::int64_t index, Do&& action) const;
  ImageView decode(Thread& thread, Resampling& geometry) const;

  const Source& source_;
  const Pipeline& pipeline_;
  SampleOptions options_;
};

}  // namespace trainer::data

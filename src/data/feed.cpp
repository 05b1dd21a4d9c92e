#include "data/feed.h"

#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/tensor.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <chrono>
#include <deque>
#include <exception>
#include <utility>

#include "data/mixing.h"

// Note [Streams]: on CUDA the copies run on a stream of their own, in the order of the steps. Step
// k+1 goes to the buffer of step k-1 and so waits on the device for the event that the compute
// stream records in next() for step k, when all work on k-1 has been queued. The compute stream
// waits on the device for the event of the copy. The host waits only where the loader has no free
// slot: then for the oldest copy. All of it goes through c10's device-independent streams and
// events, so that this file needs no CUDA header and the same code is compiled everywhere.

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

// A step's raw data on the device.
struct Raw {
  at::Tensor images;  // u8 [n, height, width, channels]
  at::Tensor labels;  // i64 [n]
  at::Tensor erase;   // i32 [n, 4], undefined where nothing is erased
};

// The parts of a slot's block (see HostBatch) as tensors, for the slot's whole capacity.
Raw parts_of(std::byte* data, const HostBatch& batch, const Loader& loader, at::Device device) {
  const auto offset = [&batch](const void* part) {
    return static_cast<const std::byte*>(part) - batch.block.data();
  };
  const std::int64_t n = loader.capacity();
  Raw raw;
  raw.labels = at::from_blob(data, {n}, at::TensorOptions(device).dtype(at::kLong));
  if (loader.erases()) {
    raw.erase = at::from_blob(data + offset(batch.erase.data()), {n, 4},
                              at::TensorOptions(device).dtype(at::kInt));
  }
  raw.images = at::from_blob(data + offset(batch.images.data()),
                             {n, loader.height(), loader.width(), loader.channels()},
                             at::TensorOptions(device).dtype(at::kByte));
  return raw;
}

// Makes model input of raw samples: all the constants on the device, and the arithmetic. Only
// element-wise operations whose rounding does not depend on an element's place, so that a sample's
// values do not depend on the cut.
class Preparation {
 public:
  Preparation(const Loader& loader, const Normalisation& normalisation, bool erases,
              const FeedOptions& options, at::Device device)
      : format_(options.memory_format),
        erases_(erases),
        height_(loader.height()),
        width_(loader.width()),
        channels_(loader.channels()) {
    const auto floats = at::TensorOptions(device).dtype(at::kFloat);
    const auto longs = at::TensorOptions(device).dtype(at::kLong);
    std::vector<float> shift;
    std::vector<float> factor;
    for (std::size_t i = 0; i < normalisation.mean.size(); ++i) {
      shift.push_back(255.0F * normalisation.mean[i]);
      factor.push_back(1.0F / (255.0F * normalisation.std[i]));
    }
    shift_ = at::tensor(shift, at::kFloat).view({1, -1, 1, 1}).to(floats);
    factor_ = at::tensor(factor, at::kFloat).view({1, -1, 1, 1}).to(floats);
    ones_ = at::ones({loader.capacity()}, floats);
    partner_ = at::bitwise_xor(at::arange(loader.capacity(), longs), 1);
    rows_ = at::arange(height_, longs);
    columns_ = at::arange(width_, longs);
    if (options.mix) classes_ = at::arange(options.classes, longs);
  }

  std::int64_t height() const { return height_; }
  std::int64_t width() const { return width_; }

  Batch make(const Raw& raw, std::int64_t size, std::int64_t begin, std::int64_t end,
             const std::optional<Mixing>& mixing) const {
    const std::int64_t n = end - begin;
    const Raw own = {raw.images.narrow(0, begin, n), raw.labels.narrow(0, begin, n),
                     erases_ ? raw.erase.narrow(0, begin, n) : at::Tensor()};
    Batch batch;
    batch.weight = ones_.narrow(0, begin, n);
    batch.input = floats(own);
    batch.target = own.labels;
    if (!mixing) return batch;
    batch.target = one_hot(own.labels);
    if (mixing->kind == Mixing::Kind::none) return batch;
    const at::Tensor which = at::clamp_max(partner_.narrow(0, begin, n), size - 1);
    const Raw other = {at::index_select(raw.images, 0, which),
                       at::index_select(raw.labels, 0, which),
                       erases_ ? at::index_select(raw.erase, 0, which) : at::Tensor()};
    batch.target = blend(batch.target, one_hot(other.labels), mixing->lambda);
    at::Tensor partner = floats(other);
    if (mixing->kind == Mixing::Kind::mixup) {
      batch.input = blend(batch.input, partner, mixing->lambda);
    } else {
      const Rectangle& box = mixing->box;
      const auto inside = [&box](const at::Tensor& images) {
        return images.narrow(2, box.top, box.height).narrow(3, box.left, box.width);
      };
      inside(batch.input).copy_(inside(partner));
    }
    return batch;
  }

 private:
  // Normalised, then erased.
  at::Tensor floats(const Raw& raw) const {
    // u8 minus float is one pass that keeps the strides: NHWC in memory is channels_last.
    at::Tensor pixels = raw.images.permute({0, 3, 1, 2});
    if (format_ == at::MemoryFormat::Contiguous && channels_ > 1) pixels = pixels.contiguous();
    at::Tensor values = at::sub(pixels, shift_).mul_(factor_).contiguous(format_);
    if (erases_) values.masked_fill_(erased(raw.erase), 0.0);
    return values;
  }

  // bool [n, 1, height, width]
  at::Tensor erased(const at::Tensor& rectangles) const {
    const auto within = [&rectangles](const at::Tensor& positions, std::int64_t side) {
      const at::Tensor start = rectangles.narrow(1, side, 1);
      const at::Tensor past = at::add(start, rectangles.narrow(1, side + 2, 1));
      return at::logical_and(at::ge(positions, start), at::lt(positions, past));
    };
    return at::logical_and(within(rows_, 0).unsqueeze(2), within(columns_, 1).unsqueeze(1))
        .unsqueeze(1);
  }

  at::Tensor one_hot(const at::Tensor& labels) const {
    return at::eq(labels.unsqueeze(1), classes_).to(at::kFloat);
  }

  // lambda * own + (1 - lambda) * other, in place. Three roundings, never a fused multiply-add:
  // vector and scalar code would differ in the last bit, and so would the cuts.
  static at::Tensor blend(const at::Tensor& own, const at::Tensor& other, double lambda) {
    other.mul_(1.0 - lambda);
    return own.mul_(lambda).add_(other);
  }

  at::MemoryFormat format_;
  bool erases_;
  std::int64_t height_, width_, channels_;
  at::Tensor shift_, factor_;  // float32 [1, channels, 1, 1]
  at::Tensor ones_;            // float32 [capacity]
  at::Tensor partner_;         // int64 [capacity]: 1, 0, 3, 2, ...
  at::Tensor rows_, columns_;  // int64 [height], [width]
  at::Tensor classes_;         // int64 [classes]
};

class RawBatch : public StepBatch {
 public:
  explicit RawBatch(const Preparation& preparation) : preparation_(preparation) {}

  std::int64_t step() const override { return step_; }
  const StepPlace& place() const override { return place_; }
  std::int64_t size() const override { return size_; }

  Batch micro(std::int64_t begin, std::int64_t end) const override {
    Batch batch = preparation_.make(raw_, size_, begin, end, mixing_);
    batch.first_position = place_.share.begin + begin;
    return batch;
  }

  void set(const HostBatch& host, Raw raw, std::optional<Mixing> mixing) {
    step_ = host.step;
    place_ = host.place;
    size_ = host.size;
    raw_ = std::move(raw);
    mixing_ = mixing;
  }

 private:
  const Preparation& preparation_;
  std::int64_t step_ = 0;
  StepPlace place_;
  std::int64_t size_ = 0;
  Raw raw_;
  std::optional<Mixing> mixing_;
};

// Brings host batches to where micro() reads them.
class Transport {
 public:
  virtual ~Transport() = default;
  // The next step's batch, or nullptr at the end; valid until the next call.
  virtual const RawBatch* next() = 0;
  // Afterwards no copy is under way and no slot is held.
  virtual void stop() = 0;
};

// What both transports do with a host batch.
class Opener {
 public:
  Opener(const Preparation& preparation, const FeedOptions& options)
      : preparation_(preparation), mix_(options.mix), seed_(options.seed) {}

  void open(const HostBatch& host, Raw raw, RawBatch& batch) const {
    std::optional<Mixing> mixing;
    if (mix_) {
      mixing = draw_mixing(*mix_, seed_, host.step, static_cast<int>(preparation_.height()),
                           static_cast<int>(preparation_.width()));
    }
    batch.set(host, std::move(raw), mixing);
  }

 private:
  const Preparation& preparation_;
  std::optional<config::Mix> mix_;
  std::uint64_t seed_;
};

// On the CPU the slot itself is the batch.
class InPlace : public Transport {
 public:
  InPlace(Loader& loader, const Preparation& preparation, const FeedOptions& options)
      : loader_(loader), opener_(preparation, options), batch_(preparation) {}
  ~InPlace() override { stop(); }

  const RawBatch* next() override {
    stop();
    const HostBatch* host = loader_.next();
    if (host == nullptr) return nullptr;
    holds_ = true;
    opener_.open(*host, parts_of(host->block.data(), *host, loader_, at::kCPU), batch_);
    return &batch_;
  }

  void stop() override {
    if (std::exchange(holds_, false)) loader_.release();
  }

 private:
  Loader& loader_;
  Opener opener_;
  RawBatch batch_;
  bool holds_ = false;
};

// On an accelerator: see Note [Streams].
class OneAhead : public Transport {
 public:
  OneAhead(Loader& loader, const Preparation& preparation, const FeedOptions& options,
           at::Device device)
      : loader_(loader),
        opener_(preparation, options),
        device_(device),
        streams_(device.type()),
        copy_stream_(streams_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
        buffers_{Buffer(preparation, device, loader.slot_bytes()),
                 Buffer(preparation, device, loader.slot_bytes())},
        queued_(device.type()) {
    // The buffers' memory may have been used on the current stream before.
    queued_.record(streams_.getStream(device_));
  }
  ~OneAhead() override { stop(); }

  const RawBatch* next() override {
    if (!started_) {
      started_ = true;
      start_copy();
    }
    if (failure_) std::rethrow_exception(failure_);
    Buffer& current = buffers_[turn_];
    if (!current.full) return nullptr;
    const c10::Stream compute = streams_.getStream(device_);
    queued_.record(compute);
    current.copied.block(compute);
    current.full = false;
    turn_ = 1 - turn_;
    start_copy();
    return &current.batch;
  }

  void stop() override {
    copy_stream_.synchronize();
    release_copied(0);
    for (Buffer& buffer : buffers_) buffer.full = false;
    failure_ = nullptr;
    started_ = false;
  }

 private:
  struct Buffer {
    Buffer(const Preparation& preparation, at::Device device, std::size_t bytes)
        : memory(at::empty({static_cast<std::int64_t>(bytes)},
                           at::TensorOptions(device).dtype(at::kByte))),
          copied(device.type()),
          batch(preparation) {}
    at::Tensor memory;
    c10::Event copied;
    RawBatch batch;
    bool full = false;
  };

  // Starts the copy of the loader's next batch into the buffer whose turn is next. What the loader
  // throws is kept for the call that would return that batch.
  void start_copy() {
    release_copied(loader_.slots() - 1);
    const HostBatch* host = nullptr;
    try {
      host = loader_.next();
    } catch (...) {
      failure_ = std::current_exception();
      return;
    }
    if (host == nullptr) return;
    Buffer& buffer = buffers_[turn_];
    const auto bytes = static_cast<std::int64_t>(host->block.size());
    const at::Tensor from = at::from_blob(host->block.data(), {bytes}, at::kByte);
    {
      const c10::StreamGuard guard(copy_stream_);
      queued_.block(copy_stream_);
      buffer.memory.narrow(0, 0, bytes).copy_(from, /*non_blocking=*/true);
      buffer.copied.record(copy_stream_);
    }
    copying_.emplace_back(device_.type());
    copying_.back().record(copy_stream_);
    auto* data = static_cast<std::byte*>(buffer.memory.mutable_data_ptr());
    opener_.open(*host, parts_of(data, *host, loader_, device_), buffer.batch);
    buffer.full = true;
  }

  // Gives back the slots whose copies are done, and waits for the oldest copies where more than
  // `most` slots would still be held.
  void release_copied(int most) {
    while (!copying_.empty()) {
      if (!copying_.front().query()) {
        if (static_cast<int>(copying_.size()) <= most) return;
        copying_.front().synchronize();
      }
      copying_.pop_front();
      loader_.release();
    }
  }

  Loader& loader_;
  Opener opener_;
  at::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream copy_stream_;
  std::array<Buffer, 2> buffers_;
  c10::Event queued_;               // all work on the batch before the current one has been queued
  std::deque<c10::Event> copying_;  // of the held slots, oldest first
  std::size_t turn_ = 0;
  bool started_ = false;
  std::exception_ptr failure_;
};

at::Device with_index(at::Device device) {
  if (device.is_cpu() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

}  // namespace

struct Feed::Impl {
  Impl(Loader& loader_, const Normalisation& normalisation, bool erases, const FeedOptions& options)
      : loader(loader_),
        device(with_index(options.device)),
        preparation(loader, normalisation, erases, options, device) {
    if (device.is_cpu())
      transport = std::make_unique<InPlace>(loader, preparation, options);
    else
      transport = std::make_unique<OneAhead>(loader, preparation, options, device);
  }

  Loader& loader;
  at::Device device;
  Preparation preparation;
  std::unique_ptr<Transport> transport;
  double wait_ms = 0;
};

Feed::Feed(Loader& loader, const Normalisation& normalisation, bool erases, FeedOptions options)
    : impl_(std::make_unique<Impl>(loader, normalisation, erases, options)) {}

Feed::~Feed() = default;

const StepBatch* Feed::next() {
  const auto started = Clock::now();
  const StepBatch* batch = impl_->transport->next();
  impl_->wait_ms += std::chrono::duration<double, std::milli>(Clock::now() - started).count();
  return batch;
}

void Feed::seek(std::int64_t step) {
  impl_->transport->stop();
  impl_->loader.seek(step);
}

LoaderTimes Feed::take_times() {
  LoaderTimes times = impl_->loader.take_times();
  times.wait_ms = std::exchange(impl_->wait_ms, 0.0);
  return times;
}

}  // namespace trainer::data

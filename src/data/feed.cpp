#include "data/feed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/error.h"
#include "data/gpu/batch_decoder.h"
#include "data/mixing.h"
#include "data/preparation.h"

// Note [Delivery]: on CUDA a thread of its own brings the batches, in the order of the steps, to
// two buffers in turn, on a stream of its own. It queues the work for a buffer once the consumer
// has gone on to the other one; the device then waits for the event that the consumer's stream
// recorded at that moment, when all work on the buffer's old batch had been queued. The consumer's
// stream waits on the device for the event of the delivery. So neither thread waits for the device:
// the delivery looks now and then which slots the device has read, and only where the loader has no
// other slot does it sleep until the oldest is free. (Waiting inside the CUDA driver would spin,
// beside threads that launch kernels.) All of it goes through c10's device-independent streams and
// events, so that this file needs no CUDA header and the same code is compiled everywhere.

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point started) {
  return std::chrono::duration<double, std::milli>(Clock::now() - started).count();
}

class RawBatch : public StepBatch {
 public:
  explicit RawBatch(const Preparation& preparation) : preparation_(preparation) {}

  std::int64_t step() const override { return step_; }
  const StepPlace& place() const override { return place_; }
  std::int64_t size() const override { return size_; }
  double weight() const override { return weight_; }
  const std::vector<BadSample>& bad() const override { return bad_; }

  Batch micro(std::int64_t begin, std::int64_t end) const override {
    Batch batch = preparation_.make(raw_, size_, begin, end, mixing_);
    batch.first_position = place_.share.begin + begin;
    return batch;
  }

  void set(const HostBatch& host, StepTensors raw, std::optional<Mixing> mixing) {
    step_ = host.step;
    place_ = host.place;
    size_ = host.size;
    weight_ = host.weight;
    bad_ = host.bad;
    raw_ = std::move(raw);
    mixing_ = mixing;
  }

 private:
  const Preparation& preparation_;
  std::int64_t step_ = 0;
  StepPlace place_;
  std::int64_t size_ = 0;
  double weight_ = 0;
  std::vector<BadSample> bad_;
  StepTensors raw_;
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
  virtual double take_deliver_ms() { return 0; }
};

// What both transports do with a host batch.
class Opener {
 public:
  Opener(const Preparation& preparation, const FeedOptions& options)
      : preparation_(preparation), mix_(options.mix), seed_(options.seed) {}

  void open(const HostBatch& host, StepTensors raw, RawBatch& batch) const {
    std::optional<Mixing> mixing;
    if (mix_) {
      mixing = draw_mixing(*mix_, seed_, host.step, preparation_.height(), preparation_.width());
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

// On an accelerator: see Note [Delivery].
class Delivery : public Transport {
 public:
  Delivery(Loader& loader, const Preparation& preparation, const FeedOptions& options,
           at::Device device)
      : loader_(loader),
        opener_(preparation, options),
        device_(device),
        streams_(device.type()),
        stream_(streams_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
        buffers_{Buffer(preparation, device, loader.slot_bytes()),
                 Buffer(preparation, device, loader.slot_bytes())} {
    if (loader.leaves_jpeg()) {
      std::string reason;
      decoder_ = BatchDecoder::create(loader, device, reason);
      if (!decoder_)
        throw Error(Exit::device, "JPEG files cannot be decoded on the GPU: " + reason);
    }
    // The buffers' memory may have been used on the current stream before.
    for (Buffer& buffer : buffers_) buffer.used.record(streams_.getStream(device_));
  }
  ~Delivery() override { stop(); }

  const RawBatch* next() override {
    if (!thread_.joinable()) start();
    std::unique_lock lock(mutex_);
    const c10::Stream compute = streams_.getStream(device_);
    if (held_) {
      Buffer& last = buffers_[turn_];
      last.used.record(compute);
      last.full = false;
      turn_ = 1 - turn_;
      held_ = false;
      changed_.notify_all();
    }
    Buffer& buffer = buffers_[turn_];
    changed_.wait(lock, [&] { return buffer.full || finished_; });
    if (!buffer.full) {
      if (failure_) std::rethrow_exception(failure_);
      return nullptr;
    }
    buffer.delivered.block(compute);
    held_ = true;
    return &buffer.batch;
  }

  void stop() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
    if (held_) buffers_[turn_].used.record(streams_.getStream(device_));
    for (Buffer& buffer : buffers_) buffer.full = false;
    held_ = finished_ = stopping_ = false;
    turn_ = 0;
    failure_ = nullptr;
  }

  double take_deliver_ms() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(deliver_ms_, 0.0);
  }

 private:
  struct Buffer {
    Buffer(const Preparation& preparation, at::Device device, std::size_t bytes)
        : memory(at::empty({static_cast<std::int64_t>(bytes)},
                           at::TensorOptions(device).dtype(at::kByte))),
          delivered(device.type()),
          used(device.type()),
          batch(preparation) {}
    at::Tensor memory;
    c10::Event delivered;
    c10::Event used;  // by all work on the batch that was in it
    RawBatch batch;
    bool full = false;
  };

  void start() {
    thread_ = std::thread([this] { deliver(); });
  }

  // The thread's work. What the loader throws is kept for the call that would return that batch.
  void deliver() {
    streams_.setDevice(device_);
    const c10::StreamGuard guard(stream_);
    std::exception_ptr failure;
    try {
      for (std::size_t turn = 0; is_free(buffers_[turn]) && deliver_into(buffers_[turn]);
           turn = 1 - turn) {
      }
    } catch (...) {
      failure = std::current_exception();
    }
    release_slots(0);
    const std::lock_guard lock(mutex_);
    failure_ = failure;
    finished_ = true;
    changed_.notify_all();
  }

  // Waits until the consumer has gone on; false where the thread is to stop.
  bool is_free(const Buffer& buffer) {
    constexpr auto kBetweenLooks = std::chrono::milliseconds(1);
    std::unique_lock lock(mutex_);
    while (buffer.full && !stopping_) {
      changed_.wait_for(lock, kBetweenLooks);
      lock.unlock();
      release_slots(loader_.slots());
      lock.lock();
    }
    return !stopping_;
  }

  // False at the end.
  bool deliver_into(Buffer& buffer) {
    release_slots(loader_.slots() - 1);
    const HostBatch* host = loader_.next();
    if (host == nullptr) return false;
    const auto started = Clock::now();
    bring(*host, buffer);
    buffer.delivered.record(stream_);
    reading_.emplace_back(device_.type());
    reading_.back().record(stream_);
    auto* data = static_cast<std::byte*>(buffer.memory.mutable_data_ptr());
    const std::lock_guard lock(mutex_);
    opener_.open(*host, parts_of(data, *host, loader_, device_), buffer.batch);
    deliver_ms_ += since(started);
    buffer.full = true;
    changed_.notify_all();
    return true;
  }

  void bring(const HostBatch& host, Buffer& buffer) {
    if (!decoder_) {
      buffer.used.block(stream_);
      return copy(host, buffer, 0, host.block.size());
    }
    auto* data = static_cast<std::byte*>(buffer.memory.mutable_data_ptr());
    const auto images = static_cast<std::size_t>(
        reinterpret_cast<const std::byte*>(host.images.data()) - host.block.data());
    const std::vector<std::int64_t>& refused = decoder_->decode(
        host, reinterpret_cast<std::uint8_t*>(data + images), buffer.used, stream_);
    for (const std::int64_t row : refused) loader_.make_here(host, row);
    copy(host, buffer, 0, images);
    if (host.size == 0) return;
    const std::size_t each = host.images.size() / static_cast<std::size_t>(host.size);
    for (std::size_t row = 0; row < host.encoded.size(); ++row)
      if (!host.encoded[row].present) copy(host, buffer, images + row * each, each);
  }

  void copy(const HostBatch& host, Buffer& buffer, std::size_t offset, std::size_t size) {
    if (size == 0) return;
    const auto bytes = static_cast<std::int64_t>(size);
    const at::Tensor from = at::from_blob(host.block.data() + offset, {bytes}, at::kByte);
    buffer.memory.narrow(0, static_cast<std::int64_t>(offset), bytes)
        .copy_(from, /*non_blocking=*/true);
  }

  // Gives back the slots that the device has read, and sleeps until the oldest are read where more
  // than `most` would still be held.
  void release_slots(int most) {
    while (!reading_.empty()) {
      if (!reading_.front().query()) {
        if (static_cast<int>(reading_.size()) <= most) return;
        sleep_until_done(reading_.front());
      }
      reading_.pop_front();
      loader_.release();
    }
  }

  Loader& loader_;
  Opener opener_;
  at::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream stream_;
  std::unique_ptr<BatchDecoder> decoder_;  // where JPEG files are left to the GPU
  std::array<Buffer, 2> buffers_;
  std::size_t turn_ = 0;            // the consumer's
  bool held_ = false;               // the consumer has buffers_[turn_]
  std::deque<c10::Event> reading_;  // of the held slots, oldest first; the thread's

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  bool finished_ = false;  // the thread delivers no more
  std::exception_ptr failure_;
  double deliver_ms_ = 0;
  std::thread thread_;
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
      transport = std::make_unique<Delivery>(loader, preparation, options, device);
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
  impl_->wait_ms += since(started);
  return batch;
}

void Feed::seek(std::int64_t step) {
  impl_->transport->stop();
  impl_->loader.seek(step);
}

FeedTimes Feed::take_times() {
  const LoaderTimes loader = impl_->loader.take_times();
  return {std::exchange(impl_->wait_ms, 0.0), impl_->transport->take_deliver_ms(), loader.stages};
}

std::string no_gpu_decoding(const Loader& loader, at::Device device) {
  if (!device.is_cuda()) return "training is on the CPU";
  std::string reason;
  const auto decoder = BatchDecoder::create(loader, device, reason);
  return decoder ? "" : reason;
}

}  // namespace trainer::data

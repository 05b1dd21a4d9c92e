#include "data/token_feed.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "data/text/token_loader.h"

// Note [Delivering tokens]: a batch is one copy of some hundred kilobytes from page-locked memory,
// which is queued within microseconds, so that no thread of its own is needed (feed.cpp's has one,
// since it decodes too). next() for step k records on the consumer's stream that all work on step
// k - 1 is queued, and queues the copy of step k + 1 into that batch's buffer, behind this event,
// on a stream of its own; the consumer's stream waits for the copy of its batch on the device. A
// slot of the loader goes back when the event after its copy has happened; where all of them wait
// for the device, the host is as many steps ahead of it, and sleeps until the oldest is read.

namespace trainer::data {
namespace {

static_assert(kIgnoredTarget == kIgnored);

using Clock = std::chrono::steady_clock;

double since(Clock::time_point started) {
  return std::chrono::duration<double, std::milli>(Clock::now() - started).count();
}

at::Device with_index(at::Device device) {
  if (device.is_cpu() || device.has_index()) return device;
  return c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

// What every batch of a feed shares.
struct Shape {
  std::int64_t capacity = 0;
  std::int64_t length = 0;
  bool packed = false;
  at::Tensor ones;  // float32 [capacity], on the device
};

class TokenBatch : public StepBatch {
 public:
  explicit TokenBatch(const Shape& shape) : shape_(shape) {}

  std::int64_t step() const override { return step_; }
  const StepPlace& place() const override { return place_; }
  std::int64_t size() const override { return size_; }
  double weight() const override { return targets_; }
  const std::vector<BadSample>& bad() const override { return bad_; }

  Batch micro(std::int64_t begin, std::int64_t end) const override {
    Batch batch;
    batch.input = part(0, begin, end);
    batch.target = part(1, begin, end);
    batch.weight = shape_.ones.narrow(0, 0, end - begin);
    batch.first_position = place_.share.begin + begin;
    if (shape_.packed) {
      batch.documents = part(2, begin, end);
      batch.positions = part(3, begin, end);
    }
    return batch;
  }

  // `block` holds what the slot's block does, on the device.
  void set(const HostTokens& host, at::Tensor block) {
    step_ = host.step;
    place_ = host.place;
    size_ = host.size;
    targets_ = static_cast<double>(host.targets);
    parts_ = block.view({-1, shape_.capacity, shape_.length});
  }

 private:
  at::Tensor part(std::int64_t index, std::int64_t begin, std::int64_t end) const {
    return parts_.select(0, index).narrow(0, begin, end - begin).to(at::kLong);
  }

  const Shape& shape_;
  std::int64_t step_ = 0;
  StepPlace place_;
  std::int64_t size_ = 0;
  double targets_ = 0;
  std::vector<BadSample> bad_;
  at::Tensor parts_;  // int32 [2 or 4, capacity, length]
};

at::Tensor as_tensor(const HostTokens& host) {
  const auto numbers = static_cast<std::int64_t>(host.block.size() / sizeof(std::int32_t));
  return at::from_blob(host.block.data(), {numbers}, at::kInt);
}

// Brings host batches to where micro() reads them.
class Transport {
 public:
  virtual ~Transport() = default;
  // The next step's batch, or nullptr at the end; valid until the next call.
  virtual const TokenBatch* next() = 0;
  // Afterwards no copy is under way and no slot is held.
  virtual void stop() = 0;
  virtual double take_deliver_ms() { return 0; }
};

// On the CPU the slot itself is the batch.
class InPlace : public Transport {
 public:
  InPlace(TokenLoader& loader, const Shape& shape) : loader_(loader), batch_(shape) {}

  const TokenBatch* next() override {
    stop();
    const HostTokens* host = loader_.next();
    if (host == nullptr) return nullptr;
    holds_ = true;
    batch_.set(*host, as_tensor(*host));
    return &batch_;
  }

  void stop() override {
    if (std::exchange(holds_, false)) loader_.release();
  }

 private:
  TokenLoader& loader_;
  TokenBatch batch_;
  bool holds_ = false;
};

// On an accelerator: see Note [Delivering tokens].
class Delivery : public Transport {
 public:
  Delivery(TokenLoader& loader, const Shape& shape, at::Device device)
      : loader_(loader),
        device_(device),
        streams_(device.type()),
        stream_(streams_.getStreamFromGlobalPool(device, /*isHighPriority=*/false)),
        buffers_{Buffer(loader, shape, device), Buffer(loader, shape, device)} {
    // The buffers' memory may have been used on the current stream before.
    for (Buffer& buffer : buffers_) buffer.used.record(streams_.getStream(device_));
  }
  ~Delivery() override { stop(); }

  const TokenBatch* next() override {
    const c10::Stream compute = streams_.getStream(device_);
    if (held_) {
      Buffer& last = buffers_[turn_];
      last.used.record(compute);
      last.full = false;
      turn_ = 1 - turn_;
      held_ = false;
    }
    Buffer& buffer = buffers_[turn_];
    if (!buffer.full) {
      release_slots(loader_.slots() - 1);
      const HostTokens* host = loader_.next();
      if (host == nullptr) return nullptr;
      bring(*host, buffer);
    }
    buffer.delivered.block(compute);
    held_ = true;
    bring_ahead(buffers_[1 - turn_]);
    return &buffer.batch;
  }

  void stop() override {
    release_slots(0);
    if (held_) buffers_[turn_].used.record(streams_.getStream(device_));
    for (Buffer& buffer : buffers_) buffer.full = false;
    held_ = false;
    turn_ = 0;
  }

  double take_deliver_ms() override { return std::exchange(deliver_ms_, 0.0); }

 private:
  struct Buffer {
    Buffer(const TokenLoader& loader, const Shape& shape, at::Device device)
        : memory(at::empty({static_cast<std::int64_t>(loader.slot_bytes() / sizeof(std::int32_t))},
                           at::TensorOptions(device).dtype(at::kInt))),
          delivered(device.type()),
          used(device.type()),
          batch(shape) {}
    at::Tensor memory;
    c10::Event delivered;
    c10::Event used;  // by all work on the batch that was in it
    TokenBatch batch;
    bool full = false;
  };

  void bring_ahead(Buffer& buffer) {
    release_slots(loader_.slots());
    const HostTokens* host = loader_.next_if_ready();
    if (host != nullptr) bring(*host, buffer);
  }

  // Queues the copy.
  void bring(const HostTokens& host, Buffer& buffer) {
    const auto started = Clock::now();
    const c10::StreamGuard guard(stream_);
    buffer.used.block(stream_);
    buffer.memory.copy_(as_tensor(host), /*non_blocking=*/true);
    buffer.delivered.record(stream_);
    reading_.emplace_back(device_.type());
    reading_.back().record(stream_);
    buffer.batch.set(host, buffer.memory);
    buffer.full = true;
    deliver_ms_ += since(started);
  }

  // Gives back the slots that the device has read, and sleeps until the oldest are read where more
  // than `most` would still be held.
  void release_slots(int most) {
    constexpr auto kBetweenLooks = std::chrono::microseconds(50);
    while (!reading_.empty()) {
      while (!reading_.front().query()) {
        if (static_cast<int>(reading_.size()) <= most) return;
        std::this_thread::sleep_for(kBetweenLooks);
      }
      reading_.pop_front();
      loader_.release();
    }
  }

  TokenLoader& loader_;
  at::Device device_;
  c10::impl::VirtualGuardImpl streams_;
  c10::Stream stream_;
  std::array<Buffer, 2> buffers_;
  std::size_t turn_ = 0;            // the consumer's
  bool held_ = false;               // the consumer has buffers_[turn_]
  std::deque<c10::Event> reading_;  // of the held slots, oldest first
  double deliver_ms_ = 0;
};

TokenLoaderOptions loader_options(const TokenFeedOptions& options) {
  TokenLoaderOptions loader;
  loader.workers = options.workers;
  loader.prefetch = options.prefetch;
  loader.first_step = options.first_step;
  loader.last_step = options.last_step;
  loader.allocate = host_allocator(options.device.is_cuda());
  return loader;
}

}  // namespace

struct TokenFeed::Impl {
  Impl(const Windows& windows, const Sampler& sampler, const TokenFeedOptions& options)
      : loader(windows, sampler, loader_options(options)),
        shape{loader.capacity(), windows.length(), windows.packed(), {}} {
    const at::Device device = with_index(options.device);
    shape.ones = at::ones({shape.capacity}, at::TensorOptions(device).dtype(at::kFloat));
    if (device.is_cpu())
      transport = std::make_unique<InPlace>(loader, shape);
    else
      transport = std::make_unique<Delivery>(loader, shape, device);
  }

  TokenLoader loader;
  Shape shape;
  std::unique_ptr<Transport> transport;
  double wait_ms = 0;
};

TokenFeed::TokenFeed(const Windows& windows, const Sampler& sampler,
                     const TokenFeedOptions& options)
    : impl_(std::make_unique<Impl>(windows, sampler, options)) {}

TokenFeed::~TokenFeed() = default;

const StepBatch* TokenFeed::next() {
  const auto started = Clock::now();
  const StepBatch* batch = impl_->transport->next();
  impl_->wait_ms += since(started);
  return batch;
}

void TokenFeed::seek(std::int64_t step) {
  impl_->transport->stop();
  impl_->loader.seek(step);
}

FeedTimes TokenFeed::take_times() {
  const LoaderTimes loader = impl_->loader.take_times();
  return {std::exchange(impl_->wait_ms, 0.0), impl_->transport->take_deliver_ms(), loader.stages};
}

}  // namespace trainer::data

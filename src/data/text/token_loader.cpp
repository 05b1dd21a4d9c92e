#include "data/text/token_loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

// Step k is filled in slot k mod slots, each by one thread: a step's tokens are copied in well
// under a millisecond. Three step numbers under one mutex say everything: `oldest` (the first that
// is not released), `claimed` (the next to be filled) and `delivered` (the next that next()
// returns). A step may be claimed while it is below oldest + slots.

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point started) {
  return std::chrono::duration<double, std::milli>(Clock::now() - started).count();
}

struct Slot {
  HostMemory memory;
  HostTokens batch;
  bool ready = false;
  std::exception_ptr failure;
};

}  // namespace

struct TokenLoader::Impl {
  Impl(const Windows& windows_, const Sampler& sampler_, TokenLoaderOptions options_)
      : windows(windows_),
        sampler(sampler_),
        options(std::move(options_)),
        slots(static_cast<std::size_t>(std::max(1, options.prefetch)) + 1) {
    const Allocate allocate = options.allocate ? options.allocate : host_allocator(false);
    for (Slot& slot : slots) slot.memory = allocate(slot_bytes());
    start_at(options.first_step);
    for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  std::size_t part_size() const {  // in tokens
    return static_cast<std::size_t>(sampler.largest_share() * windows.length());
  }
  std::size_t slot_bytes() const {
    return part_size() * sizeof(std::int32_t) * (windows.packed() ? 4 : 2);
  }

  Slot& slot_of(std::int64_t step) { return slots[static_cast<std::size_t>(step) % slots.size()]; }

  void open(Slot& slot, std::int64_t step) const {
    HostTokens& batch = slot.batch;
    batch.step = step;
    batch.place = sampler.place(step);
    batch.size = batch.place.share.size();
    batch.targets = 0;
    slot.failure = nullptr;
    auto* data = reinterpret_cast<std::int32_t*>(slot.memory.data);
    const auto used = static_cast<std::size_t>(batch.size * windows.length());
    const std::size_t packed = windows.packed() ? used : 0;
    batch.input = {data, used};
    batch.target = {data + part_size(), used};
    batch.documents = {data + 2 * part_size(), packed};
    batch.positions = {data + 3 * part_size(), packed};
    batch.block = {slot.memory.data, slot_bytes()};
  }

  void fill(Slot& slot, std::int64_t step) const {
    open(slot, step);
    HostTokens& batch = slot.batch;
    try {
      for (std::int64_t i = 0; i < batch.size; ++i) {
        const std::int64_t sample = sampler.sample(batch.place.epoch, batch.place.share.begin + i);
        const auto at = static_cast<std::size_t>(i * windows.length());
        TokenRow row{batch.input.data() + at, batch.target.data() + at, nullptr, nullptr};
        if (windows.packed()) {
          row.documents = batch.documents.data() + at;
          row.positions = batch.positions.data() + at;
        }
        batch.targets += windows.fill(sample, row);
      }
    } catch (...) {
      slot.failure = std::current_exception();
    }
  }

  // The functions from here to `work` are called with the mutex held.

  bool may_claim() const {
    return claimed < options.last_step &&
           claimed < oldest + static_cast<std::int64_t>(slots.size());
  }

  void fill_next(std::unique_lock<std::mutex>& lock) {
    const std::int64_t step = claimed++;
    Slot& slot = slot_of(step);
    ++filling;
    lock.unlock();
    const auto started = Clock::now();
    fill(slot, step);
    lock.lock();
    times.stages.read_ms += since(started);
    times.stages.read_bytes += static_cast<std::int64_t>(slot.batch.input.size_bytes());
    slot.ready = true;
    --filling;
    changed.notify_all();
  }

  void start_at(std::int64_t step) {
    oldest = claimed = delivered = step;
    for (Slot& slot : slots) slot.ready = false;
  }

  bool is_ready(std::int64_t step) { return step < claimed && slot_of(step).ready; }

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping || (!paused && may_claim()); });
      if (stopping) return;
      fill_next(lock);
    }
  }

  void require_free_slot() const {
    if (delivered - oldest < static_cast<std::int64_t>(slots.size())) return;
    throw std::logic_error("TokenLoader::next: every slot is held; release one first");
  }

  const HostTokens* deliver() {
    Slot& slot = slot_of(delivered);
    if (slot.failure) std::rethrow_exception(slot.failure);
    ++delivered;
    return &slot.batch;
  }

  const Windows& windows;
  const Sampler sampler;
  const TokenLoaderOptions options;
  std::vector<Slot> slots;

  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t oldest = 0;
  std::int64_t claimed = 0;
  std::int64_t delivered = 0;
  int filling = 0;  // threads at it
  bool paused = false;
  bool stopping = false;
  LoaderTimes times;
  std::vector<std::thread> threads;
};

TokenLoader::TokenLoader(const Windows& windows, const Sampler& sampler, TokenLoaderOptions options)
    : impl_(std::make_unique<Impl>(windows, sampler, std::move(options))) {}

TokenLoader::~TokenLoader() = default;

const Windows& TokenLoader::windows() const { return impl_->windows; }
int TokenLoader::slots() const { return static_cast<int>(impl_->slots.size()); }
std::int64_t TokenLoader::capacity() const { return impl_->sampler.largest_share(); }
std::size_t TokenLoader::slot_bytes() const { return impl_->slot_bytes(); }

const HostTokens* TokenLoader::next() {
  Impl& impl = *impl_;
  const auto started = Clock::now();
  std::unique_lock lock(impl.mutex);
  if (impl.delivered >= impl.options.last_step) return nullptr;
  impl.require_free_slot();
  if (impl.threads.empty() && impl.delivered == impl.claimed) impl.fill_next(lock);
  impl.changed.wait(lock, [&impl] { return impl.is_ready(impl.delivered); });
  impl.times.wait_ms += since(started);
  return impl.deliver();
}

const HostTokens* TokenLoader::next_if_ready() {
  Impl& impl = *impl_;
  const std::lock_guard lock(impl.mutex);
  const bool held = impl.delivered - impl.oldest >= slots();
  if (held || !impl.is_ready(impl.delivered)) return nullptr;
  // A failure belongs to the call that must have this batch.
  if (impl.slot_of(impl.delivered).failure) return nullptr;
  return impl.deliver();
}

void TokenLoader::release() {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    if (impl.oldest == impl.delivered)
      throw std::logic_error("TokenLoader::release: no batch is held");
    impl.slot_of(impl.oldest).ready = false;
    ++impl.oldest;
  }
  impl.changed.notify_all();
}

void TokenLoader::seek(std::int64_t step) {
  Impl& impl = *impl_;
  {
    std::unique_lock lock(impl.mutex);
    impl.paused = true;
    impl.changed.wait(lock, [&impl] { return impl.filling == 0; });
    impl.start_at(step);
    impl.paused = false;
  }
  impl.changed.notify_all();
}

LoaderTimes TokenLoader::take_times() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->times, {});
}

}  // namespace trainer::data

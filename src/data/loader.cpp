#include "data/loader.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "memory/memory.h"

// Note [The ring]: step k is filled in slot k mod slots. Three step numbers, all under one mutex,
// say everything: `oldest` (the first that is not released), `filling` (the first whose samples are
// not all claimed) and `delivered` (the next that next() returns). A step may be opened for filling
// while it is below oldest + slots. Workers enter the slot being filled under the mutex, claim its
// samples one by one from an atomic counter without it, and leave under the mutex again; the last
// to leave finds all samples done and marks the slot ready. A slot is opened anew only when nobody
// is inside, so what a worker reads of its slot never changes under it.

namespace trainer::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// One thread's images.
struct Scratch {
  Image image;
  Image other;
};

// Sizes and offsets of a slot's parts (see HostBatch).
struct Layout {
  std::int64_t capacity = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
  bool erases = false;

  std::size_t image_bytes() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
           static_cast<std::size_t>(channels);
  }
  std::size_t erase_offset() const {
    return aligned(static_cast<std::size_t>(capacity) * sizeof(std::int64_t));
  }
  std::size_t images_offset() const {
    const std::size_t erase_bytes = static_cast<std::size_t>(capacity) * 4 * sizeof(std::int32_t);
    return erase_offset() + (erases ? aligned(erase_bytes) : 0);
  }
  std::size_t bytes(std::int64_t samples) const {
    return images_offset() + static_cast<std::size_t>(samples) * image_bytes();
  }
};

struct Slot {
  HostMemory memory;
  HostBatch batch;
  bool open = false;   // its samples may be claimed, or are all done
  bool ready = false;  // its samples are all done
  int inside = 0;      // workers
  std::atomic<std::int64_t> next_sample{0};
  std::int64_t failed_sample = 0;  // the first that failed, where `failure` is set
  std::exception_ptr failure;
};

}  // namespace

Allocate host_allocator(bool pinned) {
  return [pinned](std::size_t bytes) {
    memory::HostBuffer buffer = memory::allocate_host(bytes, pinned);
    return HostMemory{buffer.data, std::move(buffer.owner)};
  };
}

struct Loader::Impl {
  Impl(const Source& source_, const Pipeline& pipeline_, const Sampler& sampler_,
       LoaderOptions options_)
      : source(source_),
        pipeline(pipeline_),
        sampler(sampler_),
        options(std::move(options_)),
        slots(static_cast<std::size_t>(std::max(1, options.prefetch)) + 1) {
    find_layout();
    const Allocate allocate = options.allocate ? options.allocate : host_allocator(false);
    for (Slot& slot : slots) slot.memory = allocate(layout.bytes(layout.capacity));
    start_at(options.first_step);
    threads.reserve(static_cast<std::size_t>(std::max(0, options.workers)));
    for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      claim_everything();
    }
    work_changed.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  // Where the transforms leave the size open, sample 0 decides.
  void find_layout() {
    layout.capacity = sampler.largest_share();
    layout.channels = source.channels();
    layout.erases = pipeline.erases();
    if (const auto size = pipeline.output_size()) {
      layout.height = size->first;
      layout.width = size->second;
      return;
    }
    Scratch scratch;
    make_image(0, 0, scratch);
    layout.height = scratch.image.height;
    layout.width = scratch.image.width;
  }

  Rectangle make_image(std::int64_t epoch, std::int64_t index, Scratch& scratch) const {
    source.read(index, scratch.image);
    Stream random(options.seed, StreamUse::augmentation,
                  static_cast<std::uint64_t>(options.augment ? epoch : 0),
                  static_cast<std::uint64_t>(index));
    try {
      return pipeline.apply(scratch.image, random, scratch.other);
    } catch (const Error& error) {
      throw Error(error.code(), source.sample_name(index) + ": " + error.what());
    }
  }

  void require_size(const Image& image, std::int64_t index) const {
    if (image.height == layout.height && image.width == layout.width &&
        image.channels == layout.channels)
      return;
    const auto text = [](int height, int width, int channels) {
      return std::to_string(height) + "x" + std::to_string(width) + " pixels with " +
             std::to_string(channels) + " channels";
    };
    throw Error(Exit::data, source.sample_name(index) + ": after its transforms the image has " +
                                text(image.height, image.width, image.channels) +
                                ", but the batch holds images of " +
                                text(layout.height, layout.width, layout.channels) +
                                "; end the sizes with a crop, such as {center_crop: 224}");
  }

  // Fills sample i of the slot. Many threads do so for different samples.
  void fill(Slot& slot, std::int64_t i, Scratch& scratch) {
    const HostBatch& batch = slot.batch;
    const std::int64_t epoch = batch.place.epoch;
    const std::int64_t index = sampler.sample(epoch, batch.place.share.begin + i);
    const Rectangle erase = make_image(epoch, index, scratch);
    read_bytes.fetch_add(scratch.image.bytes_read, std::memory_order_relaxed);
    require_size(scratch.image, index);
    const auto at = static_cast<std::size_t>(i);
    std::memcpy(batch.images.data() + at * layout.image_bytes(), scratch.image.pixels.data(),
                layout.image_bytes());
    batch.labels[at] = source.label(index);
    if (!layout.erases) return;
    const std::array<std::int32_t, 4> rectangle{erase.top, erase.left, erase.height, erase.width};
    std::copy(rectangle.begin(), rectangle.end(), batch.erase.begin() + std::ptrdiff_t{4} * i);
  }

  // Claims and fills samples of the slot until none is left.
  void fill_claimed(Slot& slot, Scratch& scratch) {
    for (;;) {
      const std::int64_t i = slot.next_sample.fetch_add(1, std::memory_order_relaxed);
      if (i >= slot.batch.size) return;
      try {
        fill(slot, i, scratch);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (slot.failure && slot.failed_sample <= i) continue;
        slot.failure = std::current_exception();
        slot.failed_sample = i;
      }
    }
  }

  Slot& slot_of(std::int64_t step) { return slots[static_cast<std::size_t>(step) % slots.size()]; }

  // The functions from here to `work` are called with the mutex held.

  bool may_fill() {
    if (filling >= options.last_step) return false;
    if (filling >= oldest + static_cast<std::int64_t>(slots.size())) return false;
    const Slot& slot = slot_of(filling);
    return slot.open || slot.inside == 0;
  }

  // The slot of step `filling`, opened for it by the first who comes.
  Slot& enter() {
    Slot& slot = slot_of(filling);
    if (!slot.open) open(slot, filling);
    ++slot.inside;
    return slot;
  }

  void leave(Slot& slot, std::int64_t step) {
    if (filling == step) ++filling;
    if (--slot.inside > 0) return;
    slot.ready = true;
    batch_ready.notify_all();
  }

  void open(Slot& slot, std::int64_t step) {
    HostBatch& batch = slot.batch;
    batch.step = step;
    batch.place = sampler.place(step);
    batch.size = batch.place.share.size();
    const auto size = static_cast<std::size_t>(batch.size);
    std::byte* data = slot.memory.data;
    batch.labels = {reinterpret_cast<std::int64_t*>(data), size};
    batch.erase = {reinterpret_cast<std::int32_t*>(data + layout.erase_offset()),
                   layout.erases ? 4 * size : 0};
    batch.images = {reinterpret_cast<std::uint8_t*>(data + layout.images_offset()),
                    size * layout.image_bytes()};
    batch.block = {data, layout.bytes(batch.size)};
    slot.failure = nullptr;
    slot.open = true;
    slot.ready = false;
    slot.next_sample.store(0, std::memory_order_relaxed);
  }

  // Leaves the workers nothing to claim, so that they come out of their slots soon.
  void claim_everything() {
    for (Slot& slot : slots)
      slot.next_sample.store(std::numeric_limits<std::int64_t>::max() / 2,
                             std::memory_order_relaxed);
  }

  void start_at(std::int64_t step) {
    oldest = filling = delivered = step;
    for (Slot& slot : slots) slot.open = slot.ready = false;
  }

  bool is_ready(std::int64_t step) {
    const Slot& slot = slot_of(step);
    return step < filling && slot.ready && slot.inside == 0;
  }

  void work() {
    Scratch scratch;
    std::unique_lock lock(mutex);
    for (;;) {
      work_changed.wait(lock, [this] { return stopping || (!paused && may_fill()); });
      if (stopping) return;
      const std::int64_t step = filling;
      Slot& slot = enter();
      lock.unlock();
      fill_claimed(slot, scratch);
      lock.lock();
      leave(slot, step);
    }
  }

  // Waits until the batch of `delivered` is full; fills it where there are no workers.
  void make_ready(std::unique_lock<std::mutex>& lock) {
    if (threads.empty() && delivered == filling) {
      Slot& slot = enter();
      lock.unlock();
      fill_claimed(slot, own_scratch);
      lock.lock();
      leave(slot, delivered);
    }
    batch_ready.wait(lock, [this] { return is_ready(delivered); });
  }

  const Source& source;
  const Pipeline& pipeline;
  const Sampler sampler;
  const LoaderOptions options;
  Layout layout;
  std::vector<Slot> slots;
  Scratch own_scratch;

  std::mutex mutex;
  std::condition_variable work_changed;  // for workers: there may be something to fill
  std::condition_variable batch_ready;   // for the consumer: a slot was left by its last worker
  std::int64_t oldest = 0;
  std::int64_t filling = 0;
  std::int64_t delivered = 0;
  bool paused = false;
  bool stopping = false;
  double wait_ms = 0;
  std::atomic<std::int64_t> read_bytes{0};
  std::vector<std::thread> threads;
};

Loader::Loader(const Source& source, const Pipeline& pipeline, const Sampler& sampler,
               LoaderOptions options)
    : impl_(std::make_unique<Impl>(source, pipeline, sampler, std::move(options))) {}

Loader::~Loader() = default;

int Loader::height() const { return impl_->layout.height; }
int Loader::width() const { return impl_->layout.width; }
int Loader::channels() const { return impl_->layout.channels; }
int Loader::slots() const { return static_cast<int>(impl_->slots.size()); }
std::int64_t Loader::capacity() const { return impl_->layout.capacity; }
std::size_t Loader::slot_bytes() const { return impl_->layout.bytes(impl_->layout.capacity); }
bool Loader::erases() const { return impl_->layout.erases; }

const HostBatch* Loader::next() {
  Impl& impl = *impl_;
  const auto started = Clock::now();
  std::unique_lock lock(impl.mutex);
  if (impl.delivered >= impl.options.last_step) return nullptr;
  if (impl.delivered - impl.oldest >= slots())
    throw std::logic_error("Loader::next: every slot is held; release one first");
  impl.make_ready(lock);
  impl.wait_ms += std::chrono::duration<double, std::milli>(Clock::now() - started).count();
  Slot& slot = impl.slot_of(impl.delivered);
  if (slot.failure) std::rethrow_exception(slot.failure);
  ++impl.delivered;
  return &slot.batch;
}

void Loader::release() {
  Impl& impl = *impl_;
  {
    const std::lock_guard lock(impl.mutex);
    if (impl.oldest == impl.delivered) throw std::logic_error("Loader::release: no batch is held");
    Slot& slot = impl.slot_of(impl.oldest);
    slot.open = slot.ready = false;
    ++impl.oldest;
  }
  impl.work_changed.notify_all();
}

void Loader::seek(std::int64_t step) {
  Impl& impl = *impl_;
  {
    std::unique_lock lock(impl.mutex);
    impl.paused = true;
    impl.claim_everything();
    impl.batch_ready.wait(lock, [&impl] {
      return std::all_of(impl.slots.begin(), impl.slots.end(),
                         [](const Slot& slot) { return slot.inside == 0; });
    });
    impl.start_at(step);
    impl.paused = false;
  }
  impl.work_changed.notify_all();
}

LoaderTimes Loader::take_times() {
  const std::lock_guard lock(impl_->mutex);
  LoaderTimes times;
  times.wait_ms = std::exchange(impl_->wait_ms, 0.0);
  times.read_bytes = impl_->read_bytes.exchange(0, std::memory_order_relaxed);
  return times;
}

}  // namespace trainer::data

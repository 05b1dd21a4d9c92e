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
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/random.h"
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

// A larger picture is decoded on the CPU, which can do so in part and reduced, so that the GPU's
// memory for whole pictures stays bounded.
constexpr std::int64_t kMostGpuPixels = std::int64_t{1} << 26;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Sizes and offsets of a slot's parts (see HostBatch).
struct Layout {
  std::int64_t capacity = 0;
  int height = 0;
  int width = 0;
  int channels = 0;
  bool weighted = false;
  bool erases = false;

  std::size_t image_bytes() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
           static_cast<std::size_t>(channels);
  }
  std::size_t weights_offset() const { return part(sizeof(std::int64_t)); }
  std::size_t erase_offset() const {
    return weights_offset() + (weighted ? part(sizeof(float)) : 0);
  }
  std::size_t images_offset() const {
    return erase_offset() + (erases ? part(4 * sizeof(std::int32_t)) : 0);
  }
  std::size_t bytes(std::int64_t samples) const {
    return images_offset() + static_cast<std::size_t>(samples) * image_bytes();
  }

 private:
  std::size_t part(std::size_t sample_bytes) const {
    return aligned(static_cast<std::size_t>(capacity) * sample_bytes);
  }
};

// What became of a sample that could not be used.
struct Bad {
  std::int64_t row = 0;
  BadSample sample;
};

struct Slot {
  HostMemory memory;
  HostBatch batch;
  bool open = false;   // its samples may be claimed, or are all done
  bool ready = false;  // its samples are all done
  int inside = 0;      // workers
  std::atomic<std::int64_t> next_sample{0};
  std::vector<EncodedJpeg> encoded;
  std::vector<Bad> bad;
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
        sampler(sampler_),
        options(std::move(options_)),
        maker(source_, pipeline_, options.samples),
        own(maker),
        slots(static_cast<std::size_t>(std::max(1, options.prefetch)) + 1) {
    find_layout();
    const Allocate allocate = options.allocate ? options.allocate : host_allocator(false);
    for (Slot& slot : slots) {
      slot.memory = allocate(layout.bytes(layout.capacity));
      if (options.leave_jpeg) slot.encoded.resize(static_cast<std::size_t>(layout.capacity));
    }
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

  // Where the transforms leave the size open, the first sample that can be read decides.
  void find_layout() {
    layout.capacity = sampler.largest_share();
    layout.channels = maker.pipeline().channels();
    layout.weighted = source.weighted();
    layout.erases = maker.pipeline().erases();
    if (const auto size = maker.pipeline().output_size()) {
      layout.height = size->first;
      layout.width = size->second;
      return;
    }
    constexpr std::int64_t kMost = 100;
    for (std::int64_t index = 0;; ++index) {
      try {
        maker.open(0, index, own);
        break;
      } catch (const Error&) {
        const bool last = index + 1 == std::min(kMost, source.size());
        if (options.on_bad_sample == config::BadSample::fail || last) throw;
      }
    }
    layout.height = own.plan().final_height;
    layout.width = own.plan().final_width;
  }

  void require_size(const SamplePlan& plan, std::int64_t index) const {
    if (plan.final_height == layout.height && plan.final_width == layout.width) return;
    const auto text = [](int height, int width) {
      return std::to_string(height) + "x" + std::to_string(width) + " pixels";
    };
    throw Error(Exit::config, maker.name_of(index) + ": after its transforms the image has " +
                                  text(plan.final_height, plan.final_width) +
                                  ", but the batch holds images of " +
                                  text(layout.height, layout.width) +
                                  "; end the sizes with a crop, such as {center_crop: 224}");
  }

  // Whether the sample that is open goes to the GPU undecoded; then all of it is in `encoded`.
  bool leave_encoded(std::int64_t index, SampleMaker::Thread& thread, EncodedJpeg& encoded) const {
    const SamplePlan& plan = thread.plan();
    encoded.present = false;
    if (!thread.raw().encoded() || thread.info().format != Format::jpeg) return false;
    if (!plan.only_jitter() || plan.rest.size() > 1 || plan.geometry.window.height == 0)
      return false;
    const auto jpeg = hardware_layout(thread.raw().bytes);
    if (!jpeg || static_cast<std::int64_t>(jpeg->height) * jpeg->width > kMostGpuPixels)
      return false;
    encoded.present = true;
    encoded.index = index;
    encoded.layout = *jpeg;
    encoded.orientation = thread.info().orientation;
    encoded.plan = plan;
    SampleMaker::take_bytes(thread, encoded.bytes);
    return true;
  }

  // Fills row i of the slot with sample `index`. Many threads do so for different rows.
  void fill(Slot& slot, std::int64_t i, std::int64_t index, bool may_leave,
            SampleMaker::Thread& thread) const {
    const HostBatch& batch = slot.batch;
    const auto at = static_cast<std::size_t>(i);
    maker.open(batch.place.epoch, index, thread);
    require_size(thread.plan(), index);
    const Rectangle erase = thread.plan().erase;
    if (!may_leave || !leave_encoded(index, thread, slot.encoded[at]))
      maker.make(index, thread, batch.images.data() + at * layout.image_bytes());
    batch.labels[at] = source.label(index);
    if (layout.weighted) batch.weights[at] = source.weight(index);
    if (!layout.erases) return;
    const std::array<std::int32_t, 4> rectangle{erase.top, erase.left, erase.height, erase.width};
    std::copy(rectangle.begin(), rectangle.end(), batch.erase.begin() + std::ptrdiff_t{4} * i);
  }

  // The sample that stands in for `index` in that epoch: of a keyed sequence, the first that can be
  // used. It does not depend on what else happened.
  std::int64_t fill_with_another(Slot& slot, std::int64_t i, std::int64_t index, bool may_leave,
                                 SampleMaker::Thread& thread) const {
    constexpr int kTries = 100;
    Stream random(options.samples.seed, StreamUse::replacement,
                  static_cast<std::uint64_t>(slot.batch.place.epoch),
                  static_cast<std::uint64_t>(index));
    for (int tries = 1;; ++tries) {
      const auto other =
          static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(source.size())));
      try {
        fill(slot, i, other, may_leave, thread);
        return other;
      } catch (const Error& error) {
        if (error.code() != Exit::data) throw;
        if (tries < kTries) continue;
        throw Error(Exit::data, "none of " + std::to_string(kTries) +
                                    " samples could stand in for " + maker.name_of(index) +
                                    "; the last of them: " + error.what());
      }
    }
  }

  void fill_or_replace(Slot& slot, std::int64_t i, SampleMaker::Thread& thread) {
    const std::int64_t index =
        sampler.sample(slot.batch.place.epoch, slot.batch.place.share.begin + i);
    try {
      fill(slot, i, index, options.leave_jpeg, thread);
    } catch (const Error& error) {
      if (error.code() != Exit::data || options.on_bad_sample == config::BadSample::fail) throw;
      Bad bad{i, {index, source.sample_name(index), error.what(), std::nullopt}};
      if (options.on_bad_sample == config::BadSample::replace)
        bad.sample.replaced_by = fill_with_another(slot, i, index, options.leave_jpeg, thread);
      const std::lock_guard lock(mutex);
      slot.bad.push_back(std::move(bad));
    }
  }

  // See Loader::make_here.
  void fill_here(Slot& slot, std::int64_t row) {
    EncodedJpeg& encoded = slot.encoded[static_cast<std::size_t>(row)];
    encoded.present = false;
    try {
      fill(slot, row, encoded.index, /*may_leave=*/false, own);
    } catch (const Error& error) {
      if (error.code() != Exit::data || options.on_bad_sample == config::BadSample::fail) throw;
      const std::int64_t other =
          fill_with_another(slot, row, encoded.index, /*may_leave=*/false, own);
      slot.batch.bad.push_back(
          {encoded.index, source.sample_name(encoded.index), error.what(), other});
    }
  }

  // Claims and fills samples of the slot until none is left.
  void fill_claimed(Slot& slot, SampleMaker::Thread& thread) {
    for (;;) {
      const std::int64_t i = slot.next_sample.fetch_add(1, std::memory_order_relaxed);
      if (i >= slot.batch.place.share.size()) return;
      try {
        fill_or_replace(slot, i, thread);
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
    close(slot);
    slot.ready = true;
    batch_ready.notify_all();
  }

  void open(Slot& slot, std::int64_t step) {
    HostBatch& batch = slot.batch;
    batch.step = step;
    batch.place = sampler.place(step);
    size_is(slot, batch.place.share.size());
    slot.bad.clear();
    slot.failure = nullptr;
    slot.open = true;
    slot.ready = false;
    slot.next_sample.store(0, std::memory_order_relaxed);
  }

  void size_is(Slot& slot, std::int64_t samples) const {
    HostBatch& batch = slot.batch;
    batch.size = samples;
    const auto size = static_cast<std::size_t>(samples);
    std::byte* data = slot.memory.data;
    batch.labels = {reinterpret_cast<std::int64_t*>(data), size};
    batch.weights = {reinterpret_cast<float*>(data + layout.weights_offset()),
                     layout.weighted ? size : 0};
    batch.erase = {reinterpret_cast<std::int32_t*>(data + layout.erase_offset()),
                   layout.erases ? 4 * size : 0};
    batch.images = {reinterpret_cast<std::uint8_t*>(data + layout.images_offset()),
                    size * layout.image_bytes()};
    batch.block = {data, layout.bytes(samples)};
    batch.encoded = {slot.encoded.data(), options.leave_jpeg ? size : 0};
  }

  // All rows are done: what was found bad is put in order, and rows that were left out are closed
  // up.
  void close(Slot& slot) const {
    HostBatch& batch = slot.batch;
    std::sort(slot.bad.begin(), slot.bad.end(),
              [](const Bad& a, const Bad& b) { return a.row < b.row; });
    batch.bad.clear();
    std::int64_t removed = 0;
    for (Bad& bad : slot.bad) {
      if (!bad.sample.replaced_by) remove(slot, bad.row - removed++);
      batch.bad.push_back(std::move(bad.sample));
    }
    weigh(batch);
  }

  void weigh(HostBatch& batch) const {
    batch.weight = static_cast<double>(batch.size);
    if (layout.weighted)
      batch.weight = std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
  }

  // A step needs a sample: one of those that were left out is replaced after all.
  void fill_empty(Slot& slot) {
    HostBatch& batch = slot.batch;
    if (options.may_be_empty || batch.size > 0 || batch.bad.empty()) return;
    size_is(slot, 1);
    BadSample& bad = batch.bad.front();
    try {
      bad.replaced_by = fill_with_another(slot, 0, bad.index, options.leave_jpeg, own);
    } catch (...) {
      slot.failure = std::current_exception();
    }
    weigh(batch);
  }

  void remove(Slot& slot, std::int64_t row) const {
    HostBatch& batch = slot.batch;
    const auto close_up = [row](auto part, std::size_t each) {
      const auto at = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * each);
      if (!part.empty())
        std::move(part.begin() + at + static_cast<std::ptrdiff_t>(each), part.end(),
                  part.begin() + at);
    };
    close_up(batch.labels, 1);
    close_up(batch.weights, 1);
    close_up(batch.erase, 4);
    close_up(batch.images, layout.image_bytes());
    close_up(batch.encoded, 1);
    size_is(slot, batch.size - 1);
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

  void count(SampleMaker::Thread& thread) {
    stages += thread.times();
    thread.clear_times();
  }

  void work() {
    SampleMaker::Thread thread(maker);
    std::unique_lock lock(mutex);
    for (;;) {
      work_changed.wait(lock, [this] { return stopping || (!paused && may_fill()); });
      if (stopping) return;
      const std::int64_t step = filling;
      Slot& slot = enter();
      lock.unlock();
      fill_claimed(slot, thread);
      lock.lock();
      count(thread);
      leave(slot, step);
    }
  }

  // Waits until the batch of `delivered` is full; fills it where there are no workers.
  void make_ready(std::unique_lock<std::mutex>& lock) {
    if (threads.empty() && delivered == filling) {
      Slot& slot = enter();
      lock.unlock();
      fill_claimed(slot, own);
      lock.lock();
      count(own);
      leave(slot, delivered);
    }
    batch_ready.wait(lock, [this] { return is_ready(delivered); });
  }

  const Source& source;
  const Sampler sampler;
  const LoaderOptions options;
  const SampleMaker maker;
  SampleMaker::Thread own;  // of the thread that calls next()
  Layout layout;
  std::vector<Slot> slots;

  std::mutex mutex;
  std::condition_variable work_changed;  // for workers: there may be something to fill
  std::condition_variable batch_ready;   // for the consumer: a slot was left by its last worker
  std::int64_t oldest = 0;
  std::int64_t filling = 0;
  std::int64_t delivered = 0;
  bool paused = false;
  bool stopping = false;
  double wait_ms = 0;
  StageTimes stages;
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
bool Loader::weighted() const { return impl_->layout.weighted; }
bool Loader::leaves_jpeg() const { return impl_->options.leave_jpeg; }

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
  lock.unlock();
  impl.fill_empty(slot);
  lock.lock();
  if (slot.failure) std::rethrow_exception(slot.failure);
  ++impl.delivered;
  return &slot.batch;
}

void Loader::make_here(const HostBatch& batch, std::int64_t row) {
  impl_->fill_here(impl_->slot_of(batch.step), row);
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
  times.stages = std::exchange(impl_->stages, {});
  return times;
}

}  // namespace trainer::data

#include "data/sources/cache.h"

#include <cstring>
#include <new>
#include <utility>

#include "core/ram.h"

namespace trainer::data {

// Lies in front of a sample's bytes.
struct CachedSource::Entry {
  std::size_t size;
  int height, width, channels;

  // In place of an entry: a thread is storing the sample; it did not fit, and is not tried again.
  static const Entry being_stored, refused;

  bool is_mark() const { return this == &being_stored || this == &refused; }
  Raw raw() const {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(this + 1);
    return {{bytes, size}, height, width, channels};
  }
};

const CachedSource::Entry CachedSource::Entry::being_stored{};
const CachedSource::Entry CachedSource::Entry::refused{};

namespace {

// Of this size memory is asked for; a page that no entry reaches takes no memory.
constexpr std::size_t kChunk = std::size_t{16} << 20;

std::size_t rounded(std::size_t bytes) {
  constexpr std::size_t kAlign = alignof(std::max_align_t);
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

}  // namespace

std::byte* CachedSource::Arena::allocate(std::size_t bytes) {
  const auto size = static_cast<std::int64_t>(bytes);
  if (used_.fetch_add(size) + size <= limit_) {
    if (std::byte* memory = from_chunk(bytes)) return memory;
  }
  used_ -= size;
  return nullptr;
}

// Large entries get memory of their own, so that no more than a quarter of a chunk is left over.
std::byte* CachedSource::Arena::from_chunk(std::size_t bytes) {
  try {
    if (bytes > kChunk / 4) {
      auto own = std::make_unique_for_overwrite<std::byte[]>(bytes);
      const std::lock_guard lock(mutex_);
      return chunks_.emplace_back(std::move(own)).get();
    }
    const std::lock_guard lock(mutex_);
    if (left_ < bytes) {
      free_ = chunks_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(kChunk)).get();
      left_ = kChunk;
    }
    left_ -= bytes;
    return std::exchange(free_, free_ + bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

namespace {

// The pixels go to `buffer`, so that the sample is valid as long as it.
Raw as_raw(Image& image, std::vector<std::uint8_t>& buffer) {
  buffer.swap(image.pixels);
  return {buffer, image.height, image.width, image.channels};
}

}  // namespace

CachedSource::CachedSource(std::unique_ptr<Source> source, std::int64_t limit, DecodeWhole decode)
    : source_(std::move(source)),
      decode_(std::move(decode)),
      arena_(limit),
      entries_(static_cast<std::size_t>(source_->size())) {}

CachedSource::~CachedSource() = default;

Raw CachedSource::fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const {
  auto& entry = entries_[static_cast<std::size_t>(index)];
  const Entry* found = entry.load(std::memory_order_acquire);
  if (found != nullptr && !found->is_mark()) return found->raw();
  // Only one thread stores a sample; another that wants it meanwhile reads it for itself.
  if (found != nullptr || !entry.compare_exchange_strong(found, &Entry::being_stored))
    return read(index, buffer);
  try {
    return fill(index, buffer);
  } catch (...) {
    entry.store(nullptr, std::memory_order_release);
    throw;
  }
}

Raw CachedSource::fill(std::int64_t index, std::vector<std::uint8_t>& buffer) const {
  auto& entry = entries_[static_cast<std::size_t>(index)];
  const Raw raw = read(index, buffer);
  const Entry* stored = store(raw);
  entry.store(stored == nullptr ? &Entry::refused : stored, std::memory_order_release);
  return stored == nullptr ? raw : stored->raw();
}

Raw CachedSource::read(std::int64_t index, std::vector<std::uint8_t>& buffer) const {
  const Raw raw = source_->fetch(index, buffer);
  if (!decode_ || !raw.encoded()) return raw;
  thread_local Image image;
  return decode_(raw.bytes, image) ? as_raw(image, buffer) : raw;
}

const CachedSource::Entry* CachedSource::store(const Raw& raw) const {
  std::byte* memory = arena_.allocate(rounded(sizeof(Entry) + raw.bytes.size()));
  if (memory == nullptr) return nullptr;
  auto* entry = new (memory) Entry{raw.bytes.size(), raw.height, raw.width, raw.channels};
  if (!raw.bytes.empty()) std::memcpy(entry + 1, raw.bytes.data(), raw.bytes.size());
  ++samples_;
  return entry;
}

CachedSource::Held CachedSource::held() const { return {samples_, arena_.used(), arena_.limit()}; }

std::unique_ptr<CachedSource> cached(std::unique_ptr<Source> source, const config::RamCache& config,
                                     int caches, DecodeWhole decode) {
  if (config.holds == config::CacheHolds::encoded) decode = {};
  const std::int64_t limit = config.size ? *config.size : ram_limit() / 2 / caches;
  return std::make_unique<CachedSource>(std::move(source), limit, std::move(decode));
}

}  // namespace trainer::data

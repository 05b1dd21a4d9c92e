#include "data/gpu/batch_decoder.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/error.h"
#include "data/gpu/kernels.h"
#include "data/gpu/nvjpeg.h"
#include "data/images/filter.h"

// Note [Chunks]: a batch is decoded in chunks whose pictures fit in one piece of device memory, an
// arena. Two arenas with a decoder each are used in turn, so that the host prepares a chunk while
// the one before is decoded and its kernels run; it waits until those of the chunk before that are
// done (nvJPEG's hardware does not wait for what is queued on a stream before it writes). Decoding
// has a stream of its own, since it need not wait until the batch's memory is free, as the kernels
// must.

namespace trainer::data {

#ifdef TRAINER_KERNELS

namespace {

constexpr std::size_t kArenaBytes = std::size_t{512} << 20;
// The kernels of one chunk run while the next one is prepared and decoded.
constexpr std::size_t kMostInChunk = 128;
constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t area(int height, int width) {
  return static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
}

// What a kernel needs to know of a picture, but for addresses.
kernels::Picture picture_of(const EncodedJpeg& jpeg) {
  const Resampling& geometry = jpeg.plan.geometry;
  const Rectangle region = needed(geometry);
  kernels::Picture picture{};
  picture.height = jpeg.layout.height;
  picture.width = jpeg.layout.width;
  picture.orientation = jpeg.orientation;
  picture.region_top = region.top;
  picture.region_left = region.left;
  picture.region_height = region.height;
  picture.region_width = region.width;
  picture.box_top = geometry.box.top;
  picture.box_left = geometry.box.left;
  picture.box_height = geometry.box.height;
  picture.box_width = geometry.box.width;
  picture.grid_height = geometry.height;
  picture.grid_width = geometry.width;
  picture.window_top = geometry.window.top;
  picture.window_left = geometry.window.left;
  picture.window_height = geometry.window.height;
  picture.window_width = geometry.window.width;
  picture.bicubic = geometry.interpolation == config::Interpolation::bicubic ? 1 : 0;
  picture.mirror = geometry.mirror ? 1 : 0;
  const filter::Axis down =
      filter::make_axis(geometry.box.top, geometry.box.height, geometry.height,
                        {geometry.window.top, geometry.window.height}, picture.bicubic != 0);
  const filter::Axis across =
      filter::make_axis(geometry.box.left, geometry.box.width, geometry.width,
                        {geometry.window.left, geometry.window.width}, picture.bicubic != 0);
  picture.row_taps = filter::most_taps(down);
  picture.column_taps = filter::most_taps(across);
  picture.columns_first = filter::columns_first(across, down) ? 1 : 0;
  picture.top = jpeg.plan.top;
  picture.left = jpeg.plan.left;
  std::fill(std::begin(picture.order), std::end(picture.order), -1);
  if (jpeg.plan.rest.empty()) return picture;
  const Jitter& jitter = std::get<Jitter>(jpeg.plan.rest.front());
  for (std::size_t i = 0; i < jitter.order.size(); ++i) {
    const auto which = static_cast<std::size_t>(jitter.order[i]);
    if (!jitter.factors[which]) continue;
    picture.order[i] = jitter.order[i];
    picture.factors[which] = *jitter.factors[which];
  }
  return picture;
}

int between_pixels(const kernels::Picture& picture) {
  return picture.columns_first != 0 ? picture.window_height * picture.region_width
                                    : picture.region_height * picture.window_width;
}

// Hands out the arena from its start.
class Arena {
 public:
  explicit Arena(std::byte* memory) : memory_(memory) {}
  template <class T>
  T* take(std::size_t count) {
    T* part = reinterpret_cast<T*>(memory_ + used_);
    used_ += aligned(count * sizeof(T));
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* memory_;
  std::size_t used_ = 0;
};

// Gives the picture and its task their addresses; with a null arena, counts.
void place(kernels::Picture& picture, JpegTask& task, int channels, Arena& arena) {
  const JpegLayout& layout = task.layout;
  const auto depth = static_cast<std::size_t>(channels);
  task.pixels = arena.take<std::uint8_t>(3 * area(layout.height, layout.width));
  picture.pixels = task.pixels;
  picture.turned = picture.orientation != 1 || channels != 3 ? 1 : 0;
  if (picture.turned != 0) {
    picture.region =
        arena.take<std::uint8_t>(area(picture.region_height, picture.region_width) * depth);
    picture.region_stride = picture.region_width * channels;
  } else {
    picture.region = task.pixels + 3 * (area(picture.region_top, layout.width) +
                                        static_cast<std::size_t>(picture.region_left));
    picture.region_stride = 3 * layout.width;
  }
  picture.between =
      arena.take<std::uint8_t>(static_cast<std::size_t>(between_pixels(picture)) * depth);
  picture.rows = arena.take<std::int32_t>(area(picture.window_height, 2 + picture.row_taps));
  picture.columns = arena.take<std::int32_t>(area(picture.window_width, 2 + picture.column_taps));
}

// What belongs to one of the two chunks that may be under way. Nothing in it is written before
// `made` is done: until then the device may still read it, the pictures in host memory too.
struct Chunk {
  Chunk(std::unique_ptr<NvJpeg> decoder_, c10::DeviceType type)
      : decoder(std::move(decoder_)), decoded(type), made(type) {}
  std::unique_ptr<NvJpeg> decoder;
  HostMemory host_pictures;
  at::Tensor device_pictures;
  at::Tensor arena;
  c10::Event decoded;  // on the decoder's stream
  c10::Event made;     // the kernels, and all before them
};

}  // namespace

struct BatchDecoder::Impl {
  Impl(std::array<std::unique_ptr<NvJpeg>, 2> decoders, const Loader& loader, c10::Device device_)
      : device(device_),
        height(loader.height()),
        width(loader.width()),
        channels(loader.channels()),
        decode_stream(c10::impl::VirtualGuardImpl(device_.type())
                          .getStreamFromGlobalPool(device_, /*isHighPriority=*/false)),
        chunks{Chunk(std::move(decoders[0]), device_.type()),
               Chunk(std::move(decoders[1]), device_.type())} {
    constexpr std::size_t kBytes = kMostInChunk * sizeof(kernels::Picture);
    for (Chunk& chunk : chunks) {
      chunk.host_pictures = host_allocator(/*pinned=*/true)(kBytes);
      chunk.device_pictures = device_bytes(kBytes);
    }
  }

  at::Tensor device_bytes(std::size_t bytes) const {
    return at::empty({static_cast<std::int64_t>(bytes)},
                     at::TensorOptions(device).dtype(at::kByte));
  }

  // The pictures and tasks of the batch from its row `row` on, as many as fit in a chunk: sets
  // `rows`. Returns the row behind the last.
  std::int64_t collect(const HostBatch& batch, std::int64_t row) {
    rows.clear();
    tasks.clear();
    Arena counter(nullptr);
    for (; row < batch.size && rows.size() < kMostInChunk; ++row) {
      const EncodedJpeg& jpeg = batch.encoded[static_cast<std::size_t>(row)];
      if (!jpeg.present) continue;
      kernels::Picture picture = picture_of(jpeg);
      JpegTask task{jpeg.bytes, jpeg.layout};
      Arena with = counter;
      place(picture, task, channels, with);
      if (!rows.empty() && with.used() > kArenaBytes) break;
      counter = with;
      rows.push_back(row);
      tasks.push_back(task);
    }
    needed_bytes = counter.used();
    return row;
  }

  // The chunk whose turn it is, in nobody's use, with an arena that is large enough.
  Chunk& next_chunk() {
    turn = 1 - turn;
    Chunk& chunk = chunks[turn];
    sleep_until_done(chunk.made);
    if (!chunk.arena.defined() || needed_bytes > static_cast<std::size_t>(chunk.arena.numel()))
      chunk.arena = device_bytes(std::max(needed_bytes + needed_bytes / 8, kArenaBytes / 8));
    return chunk;
  }

  void make_chunk(const HostBatch& batch, std::uint8_t* images, const c10::Stream& stream) {
    Chunk& chunk = next_chunk();
    Arena memory(static_cast<std::byte*>(chunk.arena.mutable_data_ptr()));
    kernels::Largest largest;
    auto* pictures = reinterpret_cast<kernels::Picture*>(chunk.host_pictures.data);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      kernels::Picture& picture = pictures[i];
      picture = picture_of(batch.encoded[static_cast<std::size_t>(rows[i])]);
      place(picture, tasks[i], channels, memory);
      picture.image = images + static_cast<std::size_t>(rows[i]) * area(height, width) *
                                   static_cast<std::size_t>(channels);
      if (picture.turned != 0)
        largest.turned_pixels =
            std::max(largest.turned_pixels, picture.region_height * picture.region_width);
      largest.between_pixels = std::max(largest.between_pixels, between_pixels(picture));
      largest.taps = std::max({largest.taps, picture.window_height, picture.window_width});
      for (const int which : picture.order) largest.jitter = largest.jitter || which >= 0;
    }
    if (!chunk.decoder->decode(tasks, decode_stream.native_handle())) {
      refused.insert(refused.end(), rows.begin(), rows.end());
      return;
    }
    chunk.decoded.record(decode_stream);
    chunk.decoded.block(stream);
    const auto size = static_cast<std::int64_t>(sizeof(kernels::Picture));
    const auto count = static_cast<std::int64_t>(rows.size());
    const at::Tensor to = chunk.device_pictures.narrow(0, 0, count * size);
    to.copy_(at::from_blob(pictures, {count * size}, at::kByte), /*non_blocking=*/true);
    const char* failure = kernels::build(static_cast<const kernels::Picture*>(to.const_data_ptr()),
                                         static_cast<int>(count), largest, height, width, channels,
                                         stream.native_handle());
    if (failure != nullptr)
      throw Error(Exit::device, std::string("decoding images on the GPU: ") + failure);
    chunk.made.record(stream);
  }

  c10::Device device;
  int height, width, channels;
  c10::Stream decode_stream;
  std::array<Chunk, 2> chunks;
  std::size_t turn = 0;
  std::size_t needed_bytes = 0;  // of the chunk that was collected
  std::vector<std::int64_t> rows;
  std::vector<JpegTask> tasks;
  std::vector<std::int64_t> refused;
};

std::unique_ptr<BatchDecoder> BatchDecoder::create(const Loader& loader, c10::Device device,
                                                   std::string& reason) {
  std::array<std::unique_ptr<NvJpeg>, 2> decoders{NvJpeg::create(reason), NvJpeg::create(reason)};
  if (!decoders[0] || !decoders[1]) return nullptr;
  return std::unique_ptr<BatchDecoder>(
      new BatchDecoder(std::make_unique<Impl>(std::move(decoders), loader, device)));
}

const std::vector<std::int64_t>& BatchDecoder::decode(const HostBatch& batch, std::uint8_t* images,
                                                      c10::Event& free, const c10::Stream& stream) {
  Impl& impl = *impl_;
  free.block(stream);
  impl.refused.clear();
  for (std::int64_t row = 0; row < batch.size;) {
    row = impl.collect(batch, row);
    if (!impl.rows.empty()) impl.make_chunk(batch, images, stream);
  }
  return impl.refused;
}

#else  // a build without CUDA kernels

struct BatchDecoder::Impl {};

std::unique_ptr<BatchDecoder> BatchDecoder::create(const Loader&, c10::Device,
                                                   std::string& reason) {
  reason = "this build has no CUDA kernels (nvcc was not found when it was built)";
  return nullptr;
}
const std::vector<std::int64_t>& BatchDecoder::decode(const HostBatch&, std::uint8_t*, c10::Event&,
                                                      const c10::Stream&) {
  throw std::logic_error("BatchDecoder: there is none in this build");
}

#endif

void sleep_until_done(const c10::Event& event) {
  while (!event.query()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

BatchDecoder::BatchDecoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BatchDecoder::~BatchDecoder() = default;

}  // namespace trainer::data

#include "data/gpu/nvjpeg.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

// Note [nvJPEG's interface]: the library's C interface as its documentation states it (nvJPEG 12
// and 13). Declared here, so that neither building nor running needs more than the library itself.

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr int kSuccess = 0;
constexpr int kBackendGpuHybrid = 2;
constexpr int kBackendHardware = 3;
constexpr int kOutputRgb = 5;  // interleaved
// Chroma by libjpeg's triangle filter; without it the nearest sample is taken.
constexpr unsigned kInterpolate = 1U << 5;

struct OutputImage {
  std::array<std::uint8_t*, 4> channel;
  std::array<std::size_t, 4> pitch;
};

struct Functions {
  int (*create)(int backend, void* device_allocator, void* pinned_allocator, unsigned flags,
                void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*create_state)(void* handle, void** state) = nullptr;
  int (*destroy_state)(void* state) = nullptr;
  int (*initialize)(void* handle, void* state, int batch, int threads, int format) = nullptr;
  int (*decode)(void* handle, void* state, const std::uint8_t* const* data,
                const std::size_t* lengths, OutputImage* images, void* stream) = nullptr;
};

// The CUDA libraries of pip's packages lie together, and LibTorch has loaded the runtime from
// there.
std::vector<std::string> candidates() {
  std::vector<std::string> names;
  const std::array<const char*, 2> files{"libnvjpeg.so.13", "libnvjpeg.so.12"};
  for (const char* file : files) names.emplace_back(file);
  std::vector<fs::path> folders{"/usr/local/cuda/lib64"};
  Dl_info runtime{};
  if (void* symbol = ::dlsym(RTLD_DEFAULT, "cudaGetDeviceCount");
      symbol != nullptr && ::dladdr(symbol, &runtime) != 0 && runtime.dli_fname != nullptr)
    folders.insert(folders.begin(), fs::path(runtime.dli_fname).parent_path());
  for (const fs::path& folder : folders)
    for (const char* file : files) names.push_back((folder / file).string());
  return names;
}

bool load(Functions& functions, std::string& reason) {
  void* library = nullptr;
  for (const std::string& name : candidates()) {
    library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
  }
  if (library == nullptr) {
    reason = "libnvjpeg.so.13 was not found (PyPI: nvidia-nvjpeg)";
    return false;
  }
  bool complete = true;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
    complete = complete && function != nullptr;
  };
  find(functions.create, "nvjpegCreateEx");
  find(functions.destroy, "nvjpegDestroy");
  find(functions.create_state, "nvjpegJpegStateCreate");
  find(functions.destroy_state, "nvjpegJpegStateDestroy");
  find(functions.initialize, "nvjpegDecodeBatchedInitialize");
  find(functions.decode, "nvjpegDecodeBatched");
  if (!complete) reason = "libnvjpeg is too old";
  return complete;
}

// A handle of the library: starting one takes a quarter of a second, so all decoders of a device
// share those that are in use. A handle may be used from several threads.
class Handle {
 public:
  // nullptr, with the reason in `reason`.
  static std::shared_ptr<Handle> get(unsigned flags, std::string& reason) {
    static std::mutex mutex;
    static std::map<std::pair<int, unsigned>, std::weak_ptr<Handle>> in_use;
    const std::lock_guard lock(mutex);
    std::weak_ptr<Handle>& known =
        in_use[{c10::impl::VirtualGuardImpl(at::kCUDA).getDevice().index(), flags}];
    if (auto handle = known.lock()) return handle;
    auto handle = std::make_shared<Handle>();
    if (!load(handle->functions, reason) || !handle->start(flags, reason)) return nullptr;
    known = handle;
    return handle;
  }

  ~Handle() {
    if (handle != nullptr) functions.destroy(handle);
  }
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  Functions functions;
  void* handle = nullptr;

 private:
  bool start(unsigned flags, std::string& reason) {
    for (const int backend : {kBackendHardware, kBackendGpuHybrid}) {
      const int status = functions.create(backend, nullptr, nullptr, flags, &handle);
      if (status == kSuccess && handle != nullptr) return true;
    }
    reason = "nvJPEG does not start on this GPU";
    return false;
  }
};

// What one call after the other uses.
class DecoderState {
 public:
  explicit DecoderState(std::shared_ptr<Handle> handle) : handle_(std::move(handle)) {}
  ~DecoderState() {
    if (state_ != nullptr) handle_->functions.destroy_state(state_);
  }
  DecoderState(const DecoderState&) = delete;
  DecoderState& operator=(const DecoderState&) = delete;

  bool start() { return handle_->functions.create_state(handle_->handle, &state_) == kSuccess; }

  bool decode(std::span<const JpegTask> tasks, void* stream) {
    const Functions& functions = handle_->functions;
    if (batch_ != tasks.size()) {
      batch_ = 0;
      if (functions.initialize(handle_->handle, state_, static_cast<int>(tasks.size()),
                               /*threads=*/1, kOutputRgb) != kSuccess)
        return false;
      batch_ = tasks.size();
    }
    data_.clear();
    lengths_.clear();
    images_.clear();
    for (const JpegTask& task : tasks) {
      data_.push_back(task.bytes.data());
      lengths_.push_back(task.bytes.size());
      OutputImage image{};
      image.channel[0] = task.pixels;
      image.pitch[0] = 3 * static_cast<std::size_t>(task.layout.width);
      images_.push_back(image);
    }
    return functions.decode(handle_->handle, state_, data_.data(), lengths_.data(), images_.data(),
                            stream) == kSuccess;
  }

 private:
  std::shared_ptr<Handle> handle_;
  void* state_ = nullptr;
  std::size_t batch_ = 0;  // that the state is prepared for
  // Of the call under way; they keep their memory.
  std::vector<const std::uint8_t*> data_;
  std::vector<std::size_t> lengths_;
  std::vector<OutputImage> images_;
};

std::unique_ptr<DecoderState> make_state(unsigned flags, std::string& reason) {
  std::shared_ptr<Handle> handle = Handle::get(flags, reason);
  if (!handle) return nullptr;
  auto state = std::make_unique<DecoderState>(std::move(handle));
  if (state->start()) return state;
  reason = "nvJPEG gives no decoder state";
  return nullptr;
}

bool has_full_chroma(const JpegTask& task) {
  return task.layout.horizontal == 1 && task.layout.vertical == 1;
}

}  // namespace

struct NvJpeg::Impl {
  // Without interpolation where there is no chroma to interpolate.
  std::unique_ptr<DecoderState> plain, interpolating;
};

NvJpeg::NvJpeg(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NvJpeg::~NvJpeg() = default;

std::unique_ptr<NvJpeg> NvJpeg::create(std::string& reason) {
  auto impl = std::make_unique<Impl>();
  impl->plain = make_state(0, reason);
  if (!impl->plain) return nullptr;
  return std::unique_ptr<NvJpeg>(new NvJpeg(std::move(impl)));
}

bool NvJpeg::decode(std::span<const JpegTask> tasks, void* stream) {
  if (std::all_of(tasks.begin(), tasks.end(), has_full_chroma))
    return impl_->plain->decode(tasks, stream);
  std::string reason;
  if (!impl_->interpolating) impl_->interpolating = make_state(kInterpolate, reason);
  return impl_->interpolating && impl_->interpolating->decode(tasks, stream);
}

}  // namespace trainer::data

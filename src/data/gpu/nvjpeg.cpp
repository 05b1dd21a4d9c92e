#include "data/gpu/nvjpeg.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
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
  int (*hardware)(void* handle, unsigned* engines, unsigned* cores) = nullptr;
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
  find(functions.hardware, "nvjpegGetHardwareDecoderInfo");
  if (!complete) reason = "libnvjpeg is too old";
  return complete;
}

}  // namespace

struct NvJpeg::Impl {
  Functions functions;
  void* handle = nullptr;
  void* state = nullptr;
  std::string description;
  std::size_t batch = 0;  // that the state is prepared for
  // Of the call under way; they keep their memory.
  std::vector<const std::uint8_t*> data;
  std::vector<std::size_t> lengths;
  std::vector<OutputImage> images;

  ~Impl() {
    if (state != nullptr) functions.destroy_state(state);
    if (handle != nullptr) functions.destroy(handle);
  }

  bool open(int backend) {
    return functions.create(backend, nullptr, nullptr, kInterpolate, &handle) == kSuccess &&
           handle != nullptr;
  }

  bool start(std::string& reason) {
    unsigned engines = 0;
    unsigned cores = 0;
    if (open(kBackendHardware)) {
      functions.hardware(handle, &engines, &cores);
      description = "hardware, " + std::to_string(engines) + " engines";
    } else if (open(kBackendGpuHybrid)) {
      description = "CUDA";
    } else {
      reason = "nvJPEG does not start on this GPU";
      return false;
    }
    if (functions.create_state(handle, &state) == kSuccess) return true;
    reason = "nvJPEG gives no decoder state";
    return false;
  }
};

NvJpeg::NvJpeg(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NvJpeg::~NvJpeg() = default;

std::unique_ptr<NvJpeg> NvJpeg::create(std::string& reason) {
  auto impl = std::make_unique<Impl>();
  if (!load(impl->functions, reason) || !impl->start(reason)) return nullptr;
  return std::unique_ptr<NvJpeg>(new NvJpeg(std::move(impl)));
}

const std::string& NvJpeg::describe() const { return impl_->description; }

bool NvJpeg::decode(std::span<const JpegTask> tasks, void* stream) {
  Impl& impl = *impl_;
  if (impl.batch != tasks.size()) {
    impl.batch = 0;
    if (impl.functions.initialize(impl.handle, impl.state, static_cast<int>(tasks.size()),
                                  /*threads=*/1, kOutputRgb) != kSuccess)
      return false;
    impl.batch = tasks.size();
  }
  impl.data.clear();
  impl.lengths.clear();
  impl.images.clear();
  for (const JpegTask& task : tasks) {
    impl.data.push_back(task.bytes.data());
    impl.lengths.push_back(task.bytes.size());
    OutputImage image{};
    image.channel[0] = task.pixels;
    image.pitch[0] = 3 * static_cast<std::size_t>(task.layout.width);
    impl.images.push_back(image);
  }
  return impl.functions.decode(impl.handle, impl.state, impl.data.data(), impl.lengths.data(),
                               impl.images.data(), stream) == kSuccess;
}

}  // namespace trainer::data

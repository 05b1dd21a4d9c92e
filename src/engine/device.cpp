#include "engine/device.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <cstdlib>

#include "core/cpu.h"
#include "core/error.h"
#include "core/text.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#endif

namespace trainer::engine {
namespace {

struct Gpus {
  int count = 0;
  std::string why_none;  // one clause
  std::string cure;      // one sentence
};

#ifdef TRAINER_CUDA
Gpus find_gpus() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) {
    return {0, "no NVIDIA driver is installed (libcuda.so.1 was not found)",
            "Install NVIDIA's driver (nvidia-smi must list the GPU); in a container, start it with "
            "`docker run --gpus all`."};
  }
  dlclose(driver);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return {count, {}, {}};
  (void)cudaGetLastError();  // the failure is reported here and must not surface in a later call
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (status == cudaErrorInsufficientDriver) {
    return {0, "the NVIDIA driver is too old for this build's CUDA runtime",
            "Update the driver, or use a LibTorch built for an older CUDA."};
  }
  if (visible != nullptr) {
    return {0, std::string("CUDA_VISIBLE_DEVICES=\"") + visible + "\" leaves no GPU visible",
            "Unset CUDA_VISIBLE_DEVICES, or set it to the number of a GPU that nvidia-smi lists."};
  }
  return {0, std::string("CUDA finds no GPU (") + cudaGetErrorString(status) + ")",
          "Check that nvidia-smi lists the GPU and that this process may use it."};
}

std::string describe_gpu(int index) {
  cudaDeviceProp properties{};
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, index));
  return "training on cuda:" + std::to_string(index) + ", " + properties.name + " (" +
         human_bytes(static_cast<double>(properties.totalGlobalMem)) + ")";
}
#else
Gpus find_gpus() {
  return {0, "this build's LibTorch has no CUDA",
          "Build with a CUDA LibTorch: scripts/quickstart.sh installs one."};
}
#endif

// As many threads as CPUs that this process may use, unless the user has said how many.
void set_threads() {
  if (std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(cpu_limit());
}

ChosenDevice on_cpu(const std::string& why) {
  set_threads();
  const int threads = at::get_num_threads();
  return {at::kCPU, "training on the CPU (" + std::to_string(threads) +
                        (threads == 1 ? " thread): " : " threads): ") + why};
}

}  // namespace

ChosenDevice choose_device(const config::Experiment& experiment) {
  const config::Device& wanted = experiment.device;
  if (wanted.kind == config::DeviceKind::cpu) {
    if (experiment.require_gpu) {
      throw Error(Exit::config,
                  "require_gpu: true and device: cpu contradict each other; remove one");
    }
    return on_cpu("the experiment asks for it (device: cpu)");
  }
  const Gpus gpus = find_gpus();
  if (gpus.count == 0) {
    if (wanted.kind == config::DeviceKind::cuda || experiment.require_gpu) {
      throw Error(Exit::device,
                  std::string(experiment.require_gpu ? "require_gpu: true" : "device: cuda") +
                      ", but " + gpus.why_none + ". " + gpus.cure);
    }
    return on_cpu(gpus.why_none);
  }
  if (wanted.index >= gpus.count) {
    throw Error(Exit::device, "device: cuda:" + std::to_string(wanted.index) + ", but there " +
                                  (gpus.count == 1 ? "is 1 GPU (cuda:0)"
                                                   : "are " + std::to_string(gpus.count) +
                                                         " GPUs (cuda:0 to cuda:" +
                                                         std::to_string(gpus.count - 1) + ")"));
  }
#ifdef TRAINER_CUDA
  const auto index = static_cast<c10::DeviceIndex>(wanted.index);
  try {
    c10::cuda::set_device(index);
    std::string line = describe_gpu(index);
    // Note [One stream]: all work runs on a stream of its own. A CUDA graph cannot capture the
    // default stream, and autograd's accumulation nodes stay on the stream they were made on.
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool(true, index));
    set_threads();
    return {at::Device(at::kCUDA, index), std::move(line)};
  } catch (const c10::Error& failure) {
    throw Error(Exit::device, std::string("cuda:") + std::to_string(wanted.index) +
                                  " cannot be used: " + failure.what_without_backtrace());
  }
#else
  throw Error(Exit::internal, "a GPU was found by a build without CUDA");
#endif
}

std::string gpu_name([[maybe_unused]] at::Device device) {
#ifdef TRAINER_CUDA
  cudaDeviceProp properties{};
  if (device.is_cuda() && cudaGetDeviceProperties(&properties, device.index()) == cudaSuccess)
    return properties.name;
#endif
  return {};
}

}  // namespace trainer::engine

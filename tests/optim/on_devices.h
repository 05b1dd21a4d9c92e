// A fixture that runs each test on the CPU and, where there is one, on a GPU (names start with
// Gpu).
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::optim {

class OnDevice : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  }
  at::Device device() const { return at::Device(GetParam()); }
  at::TensorOptions options() const {
    return at::TensorOptions().dtype(at::kFloat).device(device());
  }
  at::Tensor scalar(double value) const { return at::full({}, value, options()); }

  // Calls `work` so that an operation which makes the host wait for the GPU throws.
  template <class Work>
  void without_waiting(Work&& work) const {
#ifdef TRAINER_CUDA
    if (device().is_cuda()) {
      c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
      EXPECT_NO_THROW(work());
      c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
      return;
    }
#endif
    std::forward<Work>(work)();
  }
};

// Equal to the bit, signs of zeros and NaNs included.
inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.detach().cpu().contiguous();
  const at::Tensor y = b.detach().cpu().contiguous();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace trainer::optim

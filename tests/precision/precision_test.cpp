#include "precision/precision.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "support/errors.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::precision {
namespace {

using config::PrecisionMode;
using ::testing::HasSubstr;

config::Precision precision(PrecisionMode mode) {
  config::Precision config;
  config.mode = mode;
  return config;
}

// Leaves the process-wide settings as they were.
class ConfigureTest : public testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override {
    configure(precision(PrecisionMode::fp32), at::kCPU, false);
    clear();
  }
  static void clear() { unsetenv("CUBLAS_WORKSPACE_CONFIG"); }
};

TEST_F(ConfigureTest, SetsTf32OnBothLibraries) {
  const at::Context& context = at::globalContext();
  for (const bool on : {false, true, false}) {
    config::Precision config;
    config.tf32 = on;
    configure(config, at::kCPU, false);
    EXPECT_EQ(context.allowTF32CuBLAS(), on);
    EXPECT_EQ(context.allowTF32CuDNN(), on);
    for (const auto op : {at::Float32Op::MATMUL, at::Float32Op::CONV, at::Float32Op::RNN}) {
      const auto set = context.float32Precision(at::Float32Backend::CUDA, op);
      EXPECT_EQ(set == at::Float32Precision::TF32, on);
    }
  }
}

TEST_F(ConfigureTest, LeavesOneDnnAlone) {
  const at::Context& context = at::globalContext();
  const auto of_matmul = [&] {
    return context.float32Precision(at::Float32Backend::MKLDNN, at::Float32Op::MATMUL);
  };
  config::Precision config;
  config.tf32 = false;
  configure(config, at::kCPU, false);
  const auto before = of_matmul();
  config.tf32 = true;
  configure(config, at::kCPU, false);
  EXPECT_EQ(of_matmul(), before);
}

TEST_F(ConfigureTest, DeterministicTurnsBenchmarkingOff) {
  const at::Context& context = at::globalContext();
  configure(precision(PrecisionMode::bf16), at::kCPU, true);
  EXPECT_TRUE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicAlgorithmsWarnOnly());
  EXPECT_TRUE(context.deterministicCuDNN());
  EXPECT_FALSE(context.benchmarkCuDNN());
  configure(precision(PrecisionMode::bf16), at::kCPU, false);
  EXPECT_FALSE(context.deterministicAlgorithms());
  EXPECT_FALSE(context.deterministicCuDNN());
  EXPECT_TRUE(context.benchmarkCuDNN());
}

TEST_F(ConfigureTest, DeterministicOnCudaGivesCublasItsWorkspace) {
  configure(precision(PrecisionMode::fp32), at::kCUDA, false);
  EXPECT_EQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
  configure(precision(PrecisionMode::fp32), at::kCPU, true);
  EXPECT_EQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
  configure(precision(PrecisionMode::fp32), at::kCUDA, true);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":4096:8");
}

TEST_F(ConfigureTest, KeepsARepeatableWorkspaceAndRefusesAnother) {
  setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8", 1);
  configure(precision(PrecisionMode::fp32), at::kCUDA, true);
  EXPECT_STREQ(std::getenv("CUBLAS_WORKSPACE_CONFIG"), ":16:8");
  setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0", 1);
  const Error error = error_of([] { configure(precision(PrecisionMode::fp32), at::kCUDA, true); });
  EXPECT_EQ(error.code(), Exit::config);
  EXPECT_THAT(error.what(), HasSubstr("CUBLAS_WORKSPACE_CONFIG=:0:0"));
}

TEST_F(ConfigureTest, RefusesFp16OnTheCpu) {
  const Error error = error_of([] { configure(precision(PrecisionMode::fp16), at::kCPU, false); });
  EXPECT_EQ(error.code(), Exit::config);
  EXPECT_STREQ(error.what(),
               "precision.mode: fp16 trains on CUDA devices only; on the CPU use bf16 or fp32");
}

// --- Scope ---------------------------------------------------------------------------------------

at::ScalarType matmul_dtype(at::Device device) {
  const at::Tensor a = at::ones({2, 2}, at::TensorOptions().device(device));
  return at::mm(a, a).scalar_type();
}

TEST(Scope, Bf16CastsMatmulsOnTheCpuWhileItLives) {
  EXPECT_EQ(matmul_dtype(at::kCPU), at::kFloat);
  {
    const Scope scope(precision(PrecisionMode::bf16), at::kCPU);
    EXPECT_EQ(matmul_dtype(at::kCPU), at::kBFloat16);
  }
  EXPECT_EQ(matmul_dtype(at::kCPU), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Scope, Fp32DoesNothing) {
  const Scope scope(precision(PrecisionMode::fp32), at::kCPU);
  EXPECT_EQ(matmul_dtype(at::kCPU), at::kFloat);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Scope, RestoresAnOuterOne) {
  const at::ScalarType before = at::autocast::get_autocast_dtype(at::kCPU);
  {
    const Scope outer(precision(PrecisionMode::bf16), at::kCPU);
    {
      const Scope inner(precision(PrecisionMode::fp16), at::kCPU);
      EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
    }
    EXPECT_EQ(matmul_dtype(at::kCPU), at::kBFloat16);
  }
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), before);
}

// A weight's cast is cached for the scope only: the next one sees the weight's new value.
TEST(Scope, ForgetsCastWeightsAtItsEnd) {
  const at::Tensor weight = at::ones({2, 2}).requires_grad_();
  const at::Tensor input = at::ones({2, 2});
  const auto product = [&] {
    const Scope scope(precision(PrecisionMode::bf16), at::kCPU);
    return at::mm(input, weight)[0][0].item<double>();
  };
  EXPECT_EQ(product(), 2.0);
  weight.mutable_data_ptr<float>()[0] = 5.0F;
  EXPECT_EQ(product(), 6.0);
}

TEST(GpuScope, CastsMatmulsToTheModesDtype) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  for (const auto& [mode, dtype] :
       {std::pair{PrecisionMode::bf16, at::kBFloat16}, std::pair{PrecisionMode::fp16, at::kHalf},
        std::pair{PrecisionMode::fp32, at::kFloat}}) {
    const Scope scope(precision(mode), at::kCUDA);
    EXPECT_EQ(matmul_dtype(at::kCUDA), dtype);
    EXPECT_EQ(matmul_dtype(at::kCPU), at::kFloat);
  }
}

// --- Scaler --------------------------------------------------------------------------------------

class ScalerTest : public testing::TestWithParam<at::DeviceType> {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
    fp16_.initial_scale = 1024;
    fp16_.growth_interval = 3;
  }
  at::Device device() const { return at::Device(GetParam()); }
  at::Tensor found_inf(double value) const {
    return at::full({}, value, at::TensorOptions().dtype(at::kFloat).device(device()));
  }

  config::Precision fp16_ = precision(PrecisionMode::fp16);
};

double value(const Scaler& scaler) { return scaler.scale().item<double>(); }

TEST_P(ScalerTest, IsOneAndStaysOneWithoutFp16) {
  for (const PrecisionMode mode : {PrecisionMode::fp32, PrecisionMode::bf16}) {
    Scaler scaler(precision(mode), device());
    EXPECT_FALSE(scaler.scales());
    EXPECT_EQ(scaler.scale().dim(), 0);
    EXPECT_EQ(scaler.scale().scalar_type(), at::kFloat);
    scaler.update(found_inf(1));
    EXPECT_EQ(value(scaler), 1.0);
    EXPECT_TRUE(scaler.state().tensors.empty());
  }
}

// The rule of PyTorch's GradScaler: halve on overflow; double after growth_interval updates in a
// row without one.
TEST_P(ScalerTest, HalvesOnOverflowAndGrowsAfterTheInterval) {
  Scaler scaler(fp16_, device());
  EXPECT_TRUE(scaler.scales());
  const std::vector<std::pair<double, double>> steps{{0, 1024}, {0, 1024}, {0, 2048}, {1, 1024},
                                                     {0, 1024}, {0, 1024}, {1, 512},  {1, 256},
                                                     {0, 256},  {0, 256},  {0, 512}};
  for (const auto& [overflow, expected] : steps) {
    scaler.update(found_inf(overflow));
    EXPECT_EQ(value(scaler), expected);
  }
}

TEST_P(ScalerTest, StateRoundTripKeepsTheCountToTheNextGrowth) {
  Scaler first(fp16_, device());
  first.update(found_inf(1));
  first.update(found_inf(0));
  first.update(found_inf(0));
  State saved;
  for (const NamedTensor& tensor : first.state().tensors)
    saved.tensors.push_back({tensor.name, tensor.value.cpu().clone()});
  Scaler second(fp16_, device());
  second.load(saved);
  EXPECT_EQ(value(second), 512);
  second.update(found_inf(0));
  EXPECT_EQ(value(second), 1024);
}

TEST_P(ScalerTest, LoadWithoutAScaleIsRefusedInFp16AndFineOtherwise) {
  const State empty;
  Scaler bf16(precision(PrecisionMode::bf16), device());
  EXPECT_NO_THROW(bf16.load(Scaler(fp16_, device()).state()));
  EXPECT_EQ(value(bf16), 1.0);
  Scaler fp16(fp16_, device());
  const Error error = error_of([&] { fp16.load(empty); });
  EXPECT_EQ(error.code(), Exit::storage);
  EXPECT_THAT(error.what(), HasSubstr("loss scaler state: \"scale\" is missing"));
}

INSTANTIATE_TEST_SUITE_P(Cpu, ScalerTest, testing::Values(at::kCPU));
INSTANTIATE_TEST_SUITE_P(Gpu, ScalerTest, testing::Values(at::kCUDA));

#ifdef TRAINER_CUDA
TEST(GpuScaler, DoesNotMakeTheHostWait) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
  Scaler scaler(precision(PrecisionMode::fp16), at::kCUDA);
  const at::Tensor none = at::full({}, 0.0, at::TensorOptions().device(at::kCUDA));
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  EXPECT_NO_THROW(scaler.update(none));
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
}
#endif

}  // namespace
}  // namespace trainer::precision

// The models on a GPU: placement, precision, and no waiting of the host in the forward pass.
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "support/formula.h"

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

namespace trainer::models {
namespace {

class GpuModel : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
    // TF32 has 10 bits of mantissa: too few to compare with the CPU.
    at::globalContext().setAllowTF32CuDNN(false);
  }

  std::unique_ptr<Model> resnet() const {
    config::ResNet config;
    config.stem = config::Stem::cifar;
    auto model = make_model(config, {3, 32, 32}, 10, 1);
    formula::fill_state(model->state());
    return model;
  }
};

struct Autocast {
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCUDA, true);
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
};

// The largest difference, relative to the largest value.
double distance(const at::Tensor& a, const at::Tensor& wanted) {
  const at::Tensor b = wanted.detach().to(at::kDouble);
  const at::Tensor difference = a.detach().cpu().to(at::kDouble).sub(b);
  return difference.abs().max().item<double>() / b.abs().max().item<double>();
}

TEST_F(GpuModel, AgreesWithTheCpuInBothMemoryFormats) {
  const at::Tensor input = formula::model_input({8, 3, 32, 32});
  const auto cpu = resnet();
  const at::Tensor wanted = cpu->forward(input).logits;
  wanted.sum().backward();
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto gpu = resnet();
    const NamedTensors handles = gpu->parameters();
    gpu->to(at::kCUDA, format);
    for (const at::Tensor& storage : gpu->buffer_storage()) EXPECT_TRUE(storage.is_cuda());
    const at::Tensor logits = gpu->forward(input.to(at::kCUDA).contiguous(format)).logits;
    EXPECT_LT(distance(logits, wanted), 1e-4);
    logits.sum().backward();
    const at::Tensor& bias = handles.back().value;
    ASSERT_TRUE(bias.is_cuda()) << "the handle was left behind";
    EXPECT_LT(distance(bias.grad(), cpu->parameters().back().value.grad()), 1e-4);
    EXPECT_LT(distance(gpu->buffer_storage()[0], cpu->buffer_storage()[0]), 1e-4);
    EXPECT_EQ(gpu->buffer_storage()[1].max().item<std::int64_t>(), 4);
  }
}

TEST_F(GpuModel, RunsInBfloat16UnderAutocast) {
  const at::Tensor input = formula::model_input({8, 3, 32, 32});
  const auto cpu = resnet();
  cpu->set_training(false);
  const auto gpu = resnet();
  gpu->set_training(false);
  gpu->to(at::kCUDA, at::MemoryFormat::ChannelsLast);
  const Autocast autocast;
  const at::Tensor logits = gpu->forward(input.to(at::kCUDA)).logits;
  EXPECT_EQ(logits.scalar_type(), at::kBFloat16);
  // 8 bits of mantissa, through 18 layers.
  EXPECT_LT(distance(logits, cpu->forward(input).logits), 0.05);
}

#ifdef TRAINER_CUDA
TEST_F(GpuModel, TrainsWithoutWaitingForTheGpu) {
  const auto model = resnet();
  model->to(at::kCUDA, at::MemoryFormat::ChannelsLast);
  const at::Tensor input = formula::model_input({8, 3, 32, 32}).to(at::kCUDA);
  model->forward(input).logits.sum().backward();  // libraries may wait while they initialise
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR);
  EXPECT_NO_THROW(model->forward(input).logits.sum().backward());
  c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED);
}
#endif

}  // namespace
}  // namespace trainer::models

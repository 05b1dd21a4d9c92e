#include "optim/ema.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "core/error.h"
#include "on_devices.h"

namespace trainer::optim {
namespace {

using ::testing::HasSubstr;

class EmaTest : public OnDevice {
 protected:
  at::Tensor wave(std::int64_t count, double phase) const {
    return at::arange(count, options()).mul_(0.37).add_(phase).sin_();
  }
  // A parameter in channels-last memory and a batch norm's buffer.
  NamedTensors values() const {
    return {{"conv.weight", wave(72, 0)
                                .reshape({2, 4, 3, 3})
                                .contiguous(at::MemoryFormat::ChannelsLast)
                                .requires_grad_()},
            {"bn.running_mean", wave(5, 1)}};
  }
  void move(const NamedTensors& values, double phase) const {
    const c10::AutoGradMode no_grad(false);
    for (const NamedTensor& value : values)
      value.value.copy_(wave(value.value.numel(), phase).reshape(value.value.sizes()));
  }
};

TEST_P(EmaTest, FollowsTheValuesByOneMinusDecay) {
  const NamedTensors live = values();
  Ema ema(0.9, live);
  std::vector<at::Tensor> expected;
  for (const NamedTensor& value : live) expected.push_back(value.value.detach().to(at::kDouble));
  for (int step = 0; step < 5; ++step) {
    move(live, 0.5 * step);
    ema.update(scalar(0));
    for (std::size_t i = 0; i < live.size(); ++i)
      expected[i] = at::lerp(expected[i], live[i].value.detach().to(at::kDouble), 0.1);
  }
  const State state = ema.state();
  ASSERT_EQ(state.tensors.size(), 2U);
  for (std::size_t i = 0; i < live.size(); ++i) {
    EXPECT_EQ(state.tensors[i].name, live[i].name);
    EXPECT_LT(state.tensors[i].value.sub(expected[i]).abs().max().item<double>(), 1e-6);
  }
}

TEST_P(EmaTest, LeavesTheValuesAlone) {
  const NamedTensors live = values();
  const at::Tensor before = live[0].value.detach().clone();
  Ema ema(0.5, live);
  move(live, 2.0);
  const at::Tensor moved = live[0].value.detach().clone();
  ema.update(scalar(0));
  EXPECT_TRUE(same_bits(live[0].value, moved));
  EXPECT_FALSE(same_bits(ema.state().tensors[0].value, before));
}

TEST_P(EmaTest, FoundInfLeavesEveryBitAsItWasEvenForValuesThatAreNotFinite) {
  const NamedTensors live{{"mean", wave(5, 0)}};
  live[0].value[0] = -0.0;
  Ema ema(0.9, live);
  const at::Tensor before = ema.state().tensors[0].value.clone();
  live[0].value.fill_(std::numeric_limits<float>::infinity());
  ema.update(scalar(1));
  EXPECT_TRUE(same_bits(ema.state().tensors[0].value, before));
}

TEST_P(EmaTest, SwapExchangesAndBackAgainInPlace) {
  const NamedTensors live = values();
  Ema ema(0.9, live);
  const at::Tensor average = ema.state().tensors[0].value.clone();
  move(live, 2.0);
  const at::Tensor value = live[0].value.detach().clone();
  const void* address = live[0].value.const_data_ptr();
  ema.swap();
  EXPECT_TRUE(same_bits(live[0].value, average));
  ema.swap();
  EXPECT_TRUE(same_bits(live[0].value, value));
  EXPECT_TRUE(same_bits(ema.state().tensors[0].value, average));
  EXPECT_EQ(live[0].value.const_data_ptr(), address);
}

TEST_P(EmaTest, IsNotUsedWhileSwapped) {
  const NamedTensors live = values();
  Ema ema(0.9, live);
  ema.swap();
  EXPECT_THROW(ema.update(scalar(0)), c10::Error);
  EXPECT_THROW(ema.state(), c10::Error);
}

TEST_P(EmaTest, StateRoundTripContinuesToTheBit) {
  const NamedTensors live = values();
  Ema first(0.9, live);
  move(live, 1.0);
  first.update(scalar(0));
  State saved;
  for (const NamedTensor& tensor : first.state().tensors)
    saved.tensors.push_back({tensor.name, tensor.value.cpu().contiguous()});
  Ema second(0.9, live);
  second.load(saved);
  move(live, 2.0);
  first.update(scalar(0));
  second.update(scalar(0));
  for (std::size_t i = 0; i < live.size(); ++i)
    EXPECT_TRUE(same_bits(first.state().tensors[i].value, second.state().tensors[i].value));
}

TEST_P(EmaTest, LoadNamesWhatDiffers) {
  Ema ema(0.9, values());
  try {
    ema.load(State{{{"conv.weight", at::ones({2, 4, 3, 3})}}, {}});
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::storage);
    EXPECT_THAT(error.what(), HasSubstr("EMA state does not fit this run"));
    EXPECT_THAT(error.what(), HasSubstr("bn.running_mean: missing in the saved state"));
  }
}

TEST_P(EmaTest, NothingWaitsForTheDevice) {
  const NamedTensors live = values();
  Ema ema(0.9, live);
  const at::Tensor found_inf = scalar(0);
  without_waiting([&] {
    ema.update(found_inf);
    ema.swap();
    ema.swap();
  });
}

INSTANTIATE_TEST_SUITE_P(Cpu, EmaTest, testing::Values(at::kCPU));
INSTANTIATE_TEST_SUITE_P(Gpu, EmaTest, testing::Values(at::kCUDA));

}  // namespace
}  // namespace trainer::optim

#include "optim/optimizer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "on_devices.h"

namespace trainer::optim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

at::Tensor to_tensor(const nlohmann::json& values, at::IntArrayRef shape, at::ScalarType dtype) {
  return at::tensor(values.get<std::vector<double>>(), at::kDouble).reshape(shape).to(dtype);
}

config::Optim config_of(const nlohmann::json& golden) {
  const auto fill = [&](auto config) {
    config.weight_decay = golden["weight_decay"];
    return config;
  };
  if (golden["kind"] == "sgd") {
    auto sgd = fill(config::Sgd{});
    sgd.momentum = golden["momentum"];
    sgd.nesterov = golden["nesterov"];
    return sgd;
  }
  auto adam = fill(config::Adam{});
  adam.betas = golden["betas"].get<std::vector<double>>();
  adam.eps = golden["eps"];
  adam.decoupled = golden["kind"] == "adamw";
  return adam;
}

// The gradient of tests/oracle/optim.py.
at::Tensor gradient(const at::Tensor& parameter, int step) {
  return (parameter.detach().mul(0.5 + 0.125 * step)).add_(0.25 - 0.0625 * step);
}

void set_gradients(const NamedTensors& parameters, int step) {
  for (const NamedTensor& parameter : parameters)
    parameter.value.mutable_grad() = gradient(parameter.value, step);
}

class OptimizerTest : public OnDevice {
 protected:
  NamedTensors golden_parameters() const {
    NamedTensors parameters;
    for (const auto& [name, start] : golden()["initial"].items()) {
      const auto shape = start["shape"].get<std::vector<std::int64_t>>();
      parameters.push_back(
          {name, to_tensor(start["values"], shape, at::kFloat).to(device()).requires_grad_()});
    }
    return parameters;
  }

  static const nlohmann::json& golden() {
    static const nlohmann::json values = [] {
      std::ifstream file("golden/optim/optimizers.json");
      return nlohmann::json::parse(file);
    }();
    return values;
  }

  static std::vector<std::string> names_of(const NamedTensors& tensors) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
    return names;
  }

  static NamedTensors copy_of(const NamedTensors& tensors) {
    NamedTensors copies;
    for (const NamedTensor& tensor : tensors)
      copies.push_back({tensor.name, tensor.value.detach().cpu().clone()});
    return copies;
  }

  static void expect_same_bits(const NamedTensors& a, const NamedTensors& b) {
    ASSERT_EQ(names_of(a), names_of(b));
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(same_bits(a[i].value, b[i].value)) << a[i].name;
  }

  std::vector<config::Optim> every_kind() const {
    config::Sgd plain;
    plain.weight_decay = 0.1;
    config::Sgd momentum = plain;
    momentum.momentum = 0.9;
    momentum.nesterov = true;
    config::Adam adam;
    adam.weight_decay = 0.1;
    config::Adam adamw = adam;
    adamw.decoupled = true;
    return {plain, momentum, adam, adamw};
  }
};

// The golden values are PyTorch's in float64, so what is measured is float32's rounding over ten
// steps (half an ulp is 6e-8), with each step's gradient computed from the step before.
constexpr double kTolerance = 1e-6;

TEST_P(OptimizerTest, EqualsPyTorchOverTenSteps) {
  ASSERT_EQ(golden()["cases"].size(), 8U);
  for (const auto& [name, expected] : golden()["cases"].items()) {
    const NamedTensors parameters = golden_parameters();
    const auto optimizer = make_optimizer(config_of(expected), parameters);
    for (int step = 0; step < golden()["steps"]; ++step) {
      set_gradients(parameters, step);
      optimizer->step(scalar(golden()["lr"]), scalar(1), scalar(0));
    }
    for (const NamedTensor& parameter : parameters) {
      const at::Tensor final =
          to_tensor(expected["final"][parameter.name], parameter.value.sizes(), at::kDouble);
      const at::Tensor error =
          parameter.value.detach().cpu().sub(final).abs().div(final.abs().clamp_min(1));
      EXPECT_LT(error.max().item<double>(), kTolerance) << name << " " << parameter.name;
    }
  }
}

TEST_P(OptimizerTest, FoundInfLeavesEveryBitAsItWas) {
  for (const config::Optim& config : every_kind()) {
    const NamedTensors parameters = golden_parameters();
    const auto optimizer = make_optimizer(config, parameters);
    set_gradients(parameters, 0);
    optimizer->step(scalar(0.1), scalar(1), scalar(0));
    const NamedTensors values = copy_of(parameters);
    const NamedTensors state = copy_of(optimizer->state().tensors);

    set_gradients(parameters, 1);
    for (const NamedTensor& parameter : parameters)
      parameter.value.mutable_grad().fill_(std::numeric_limits<float>::infinity());
    optimizer->step(scalar(0.1), scalar(1), scalar(1));
    expect_same_bits(values, copy_of(parameters));
    expect_same_bits(state, copy_of(optimizer->state().tensors));
  }
}

// A run with a skipped step in the middle goes on as if it had not been.
TEST_P(OptimizerTest, ASkippedStepDoesNotCount) {
  for (const config::Optim& config : every_kind()) {
    const NamedTensors with = golden_parameters();
    const NamedTensors without = golden_parameters();
    const auto skipping = make_optimizer(config, with);
    const auto straight = make_optimizer(config, without);
    for (int step = 0; step < 4; ++step) {
      set_gradients(with, step);
      set_gradients(without, step);
      const bool skip = step == 2;
      skipping->step(scalar(0.1), scalar(1), scalar(skip ? 1 : 0));
      if (!skip) straight->step(scalar(0.1), scalar(1), scalar(0));
    }
    expect_same_bits(copy_of(with), copy_of(without));
  }
}

// Scaling by a power of two is exact, so dividing it out again is too.
TEST_P(OptimizerTest, GradDivisorDividesTheGradients) {
  for (const config::Optim& config : every_kind()) {
    const NamedTensors scaled = golden_parameters();
    const NamedTensors plain = golden_parameters();
    const NamedTensors undivided = golden_parameters();
    const auto a = make_optimizer(config, scaled);
    const auto b = make_optimizer(config, plain);
    const auto c = make_optimizer(config, undivided);
    for (int step = 0; step < 3; ++step) {
      for (const NamedTensors* parameters : {&scaled, &plain, &undivided})
        set_gradients(*parameters, step);
      for (const NamedTensor& parameter : scaled) parameter.value.mutable_grad().mul_(1024);
      a->step(scalar(0.1), scalar(1024), scalar(0));
      b->step(scalar(0.1), scalar(1), scalar(0));
      c->step(scalar(0.1), at::Tensor(), scalar(0));
    }
    expect_same_bits(copy_of(scaled), copy_of(plain));
    for (std::size_t i = 0; i < plain.size(); ++i)
      EXPECT_LT(undivided[i].value.sub(plain[i].value).abs().max().item<double>(), kTolerance);
  }
}

TEST_P(OptimizerTest, GroupsScaleTheRateAndSetTheDecay) {
  config::Sgd config;
  config.weight_decay = 0.5;
  config.groups = {{"*.bias", 1.0, 0.0}, {"fc.*", 4.0, {}}};
  const at::Tensor one = at::ones({2}, options());
  const NamedTensors parameters{{"conv.weight", one.clone().requires_grad_()},
                                {"conv.bias", one.clone().requires_grad_()},
                                {"fc.weight", one.clone().requires_grad_()}};
  for (const NamedTensor& parameter : parameters) parameter.value.mutable_grad() = one.clone();
  make_optimizer(config, parameters)->step(scalar(0.125), scalar(1), scalar(0));
  // 1 - lr * factor * (gradient + decay * 1), all exact in float32
  EXPECT_EQ(parameters[0].value[0].item<double>(), 1 - 0.125 * 1.5);
  EXPECT_EQ(parameters[1].value[0].item<double>(), 1 - 0.125 * 1.0);
  EXPECT_EQ(parameters[2].value[0].item<double>(), 1 - 0.125 * 4 * 1.5);
}

TEST_P(OptimizerTest, StateRoundTripContinuesToTheBit) {
  for (const config::Optim& config : every_kind()) {
    const NamedTensors original = golden_parameters();
    const auto first = make_optimizer(config, original);
    for (int step = 0; step < 3; ++step) {
      set_gradients(original, step);
      first->step(scalar(0.1), scalar(1), scalar(0));
    }
    const State saved{copy_of(first->state().tensors), first->state().values};

    NamedTensors resumed;
    for (const NamedTensor& parameter : original)
      resumed.push_back({parameter.name, parameter.value.detach().clone().requires_grad_()});
    const auto second = make_optimizer(config, resumed);
    second->load(saved);
    for (int step = 3; step < 6; ++step) {
      set_gradients(original, step);
      set_gradients(resumed, step);
      first->step(scalar(0.1), scalar(1), scalar(0));
      second->step(scalar(0.1), scalar(1), scalar(0));
    }
    expect_same_bits(copy_of(original), copy_of(resumed));
    expect_same_bits(copy_of(first->state().tensors), copy_of(second->state().tensors));
  }
}

TEST_P(OptimizerTest, StateIsNamedAfterTheParameters) {
  const at::Tensor weight = at::ones({2, 3}, options()).requires_grad_();
  const auto kinds = every_kind();
  const auto names = [&](std::size_t kind) {
    return names_of(make_optimizer(kinds[kind], {{"w", weight}})->state().tensors);
  };
  EXPECT_THAT(names(0), ElementsAre());
  EXPECT_THAT(names(1), ElementsAre("w.momentum_buffer"));
  EXPECT_THAT(names(2), ElementsAre("w.exp_avg", "w.exp_avg_sq", "w.step"));
}

TEST_P(OptimizerTest, LoadListsEveryDifferenceAndChangesNothing) {
  const auto adam = every_kind()[2];
  const NamedTensors parameters{{"a", at::ones({2}, options()).requires_grad_()},
                                {"b", at::ones({3}, options()).requires_grad_()}};
  const auto optimizer = make_optimizer(adam, parameters);
  State saved = optimizer->state();
  saved.tensors = copy_of(saved.tensors);
  saved.tensors[0].value.fill_(7);
  saved.tensors[3].value = at::ones({4});  // b.exp_avg
  saved.tensors[4].name = "c.exp_avg_sq";  // was b.exp_avg_sq
  try {
    optimizer->load(saved);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::storage);
    EXPECT_THAT(error.what(), HasSubstr("optimizer state does not fit this run"));
    EXPECT_THAT(error.what(), HasSubstr("b.exp_avg: saved as Float[4], expected Float[3]"));
    EXPECT_THAT(error.what(), HasSubstr("b.exp_avg_sq: missing in the saved state"));
    EXPECT_THAT(error.what(), HasSubstr("c.exp_avg_sq: saved, but not part of this run"));
  }
  EXPECT_EQ(optimizer->state().tensors[0].value.abs().max().item<double>(), 0);
}

TEST_P(OptimizerTest, OnlyTrainableParametersWithAGradientTakePart) {
  const at::Tensor one = at::ones({2}, options());
  const NamedTensors parameters{{"frozen", one.clone()},
                                {"idle", one.clone().requires_grad_()},
                                {"used", one.clone().requires_grad_()}};
  const auto optimizer = make_optimizer(every_kind()[3], parameters);
  EXPECT_THAT(names_of(optimizer->state().tensors),
              ElementsAre("idle.exp_avg", "idle.exp_avg_sq", "idle.step", "used.exp_avg",
                          "used.exp_avg_sq", "used.step"));
  EXPECT_TRUE(optimizer->gradients().empty());
  optimizer->zero_grad();
  optimizer->step(scalar(0.1), scalar(1), scalar(0));
  EXPECT_TRUE(same_bits(parameters[2].value, one));

  parameters[2].value.mutable_grad() = one.clone();
  ASSERT_EQ(optimizer->gradients().size(), 1U);
  optimizer->step(scalar(0.1), scalar(1), scalar(0));
  EXPECT_TRUE(same_bits(parameters[0].value, one));
  EXPECT_TRUE(same_bits(parameters[1].value, one));
  EXPECT_FALSE(same_bits(parameters[2].value, one));
  EXPECT_EQ(optimizer->state().tensors[2].value.item<double>(), 0);
  EXPECT_EQ(optimizer->state().tensors[5].value.item<double>(), 1);
}

TEST_P(OptimizerTest, ZeroGradLeavesNoGradient) {
  const NamedTensors parameters = golden_parameters();
  const auto optimizer = make_optimizer(config::Sgd{}, parameters);
  set_gradients(parameters, 0);
  ASSERT_EQ(optimizer->gradients().size(), 3U);
  optimizer->zero_grad();
  EXPECT_TRUE(optimizer->gradients().empty());
  for (const NamedTensor& parameter : parameters) EXPECT_FALSE(parameter.value.grad().defined());
}

// In channels-last memory, with gradients in the same layout and in another one.
TEST_P(OptimizerTest, MemoryFormatDoesNotChangeValues) {
  const at::Tensor start = at::arange(96, options()).mul(0.37).sin().reshape({4, 6, 2, 2});
  for (const config::Optim& config : every_kind()) {
    const at::Tensor plain = start.clone().requires_grad_();
    const at::Tensor last = start.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    const at::Tensor mixed = start.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
    const auto a = make_optimizer(config, {{"w", plain}});
    const auto b = make_optimizer(config, {{"w", last}});
    const auto c = make_optimizer(config, {{"w", mixed}});
    for (int step = 0; step < 3; ++step) {
      plain.mutable_grad() = gradient(plain, step);
      last.mutable_grad() = gradient(last, step);
      mixed.mutable_grad() = gradient(mixed, step).contiguous();
      ASSERT_FALSE(last.grad().is_contiguous());
      for (const auto& optimizer : {a.get(), b.get(), c.get()})
        optimizer->step(scalar(0.1), scalar(1), scalar(0));
    }
    EXPECT_TRUE(last.is_contiguous(at::MemoryFormat::ChannelsLast));
    // Not to the bit: elements meet the vectorised and the scalar half of a kernel in another
    // order.
    EXPECT_LT(plain.sub(last).abs().max().item<double>(), kTolerance);
    EXPECT_TRUE(same_bits(last, mixed));
  }
}

TEST_P(OptimizerTest, NothingWaitsForTheDevice) {
  const at::Tensor lr = scalar(0.1);
  const at::Tensor divisor = scalar(2);
  const at::Tensor found_inf = scalar(0);
  for (config::Optim config : every_kind()) {
    std::visit([](auto& kind) { kind.groups = {{"*.bias", 2.0, 0.0}}; }, config);
    const NamedTensors parameters = golden_parameters();
    const auto optimizer = make_optimizer(config, parameters);
    set_gradients(parameters, 0);
    without_waiting([&] {
      global_norm(optimizer->gradients());
      optimizer->step(lr, divisor, found_inf);
      optimizer->zero_grad();
    });
  }
}

// --- global norm ---------------------------------------------------------------------------------

TEST_P(OptimizerTest, GlobalNormIsOverAllGradientsTogether) {
  const at::Tensor three = at::full({1}, 3.0, options());
  const at::Tensor fours = at::full({2, 2}, 2.0, options());  // norm 4
  const at::Tensor norm = global_norm({three, fours});
  EXPECT_EQ(norm.dim(), 0);
  EXPECT_EQ(norm.scalar_type(), at::kFloat);
  EXPECT_EQ(norm.device().type(), device().type());
  EXPECT_FLOAT_EQ(norm.item<float>(), 5.0F);
}

TEST_P(OptimizerTest, GlobalNormOfHalfPrecisionGradientsDoesNotOverflow) {
  const at::Tensor large = at::full({4}, 60000.0, options().dtype(at::kHalf));
  EXPECT_NEAR(global_norm({large}).item<double>(), 120000.0, 100.0);
}

TEST_P(OptimizerTest, GlobalNormOfNothingIsZero) { EXPECT_EQ(global_norm({}).item<double>(), 0); }

TEST_P(OptimizerTest, GlobalNormShowsAnInfinity) {
  const at::Tensor bad = at::full({3}, std::numeric_limits<float>::infinity(), options());
  EXPECT_TRUE(std::isinf(global_norm({at::ones({2}, options()), bad}).item<double>()));
}

INSTANTIATE_TEST_SUITE_P(Cpu, OptimizerTest, testing::Values(at::kCPU));
INSTANTIATE_TEST_SUITE_P(Gpu, OptimizerTest, testing::Values(at::kCUDA));

}  // namespace
}  // namespace trainer::optim

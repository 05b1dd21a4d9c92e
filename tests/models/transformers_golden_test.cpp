// The transformers against Hugging Face's and timm's: tests/oracle/transformers_models.py describes
// the golden files.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "models/hugging_face.h"
#include "models/model.h"
#include "models/rotary.h"
#include "models/summary.h"
#include "support/formula.h"
#include "support/golden.h"

namespace trainer::models {
namespace {

using nlohmann::json;

std::vector<std::int64_t> sizes_of(const json& golden) {
  return golden.at("input").get<std::vector<std::int64_t>>();
}

at::Tensor documents_of(const json& golden) {
  std::vector<at::Tensor> rows;
  for (const json& row : golden.at("documents")) {
    const auto numbers = row.get<std::vector<std::int64_t>>();
    rows.push_back(at::tensor(numbers, at::kLong));
  }
  return at::stack(rows);
}

// The place of each token in its document.
at::Tensor positions_of(const at::Tensor& documents) {
  const at::Tensor places = at::zeros_like(documents);
  for (std::int64_t n = 0; n < documents.size(0); ++n) {
    for (std::int64_t t = 1; t < documents.size(1); ++t) {
      if (!at::equal(documents[n][t], documents[n][t - 1])) continue;
      places[n][t] = places[n][t - 1] + 1;
    }
  }
  return places;
}

Batch batch_of(const json& golden) {
  const auto sizes = sizes_of(golden);
  Batch batch;
  if (sizes.size() == 4) {
    batch.input = formula::model_input(sizes);
    return batch;
  }
  const auto classes = golden.at("classes").get<std::int64_t>();
  batch.input = formula::targets(sizes[0] * sizes[1], classes, 11).view(sizes);
  if (!golden.at("documents").is_null()) {
    batch.documents = documents_of(golden);
    batch.positions = positions_of(batch.documents);
  }
  return batch;
}

std::unique_ptr<Model> make(const json& golden) {
  const auto sizes = sizes_of(golden);
  const InputShape input =
      sizes.size() == 4 ? InputShape{sizes[1], sizes[2], sizes[3]} : InputShape{};
  auto model = make_model(golden::model(golden.at("model")), input,
                          golden.at("classes").get<std::int64_t>(), 0);
  formula::fill_state(model->state());
  return model;
}

at::Tensor logits_of(const Output& output) {
  return output.hidden.defined() ? at::linear(output.hidden, output.head) : output.logits;
}

void expect_spread(const at::Tensor& logits, const json& golden) {
  const auto wanted = golden.at("logits").get<std::vector<double>>();
  const at::Tensor flat = logits.detach().reshape({-1}).contiguous();
  double largest = 0;
  for (const double value : wanted) largest = std::max(largest, std::abs(value));
  const double tolerance = golden.at("logit_tolerance").get<double>() * largest;
  const std::int64_t count = std::ssize(wanted);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = i * (flat.numel() - 1) / (count - 1);
    EXPECT_NEAR(flat.const_data_ptr<float>()[at], wanted[static_cast<std::size_t>(i)], tolerance)
        << "position " << at;
  }
}

TEST(TransformersGolden, OutputsAndGradientsAreTheirs) {
  const json goldens = golden::read("models/transformers.json");
  ASSERT_EQ(goldens.size(), 8U);
  for (const json& golden : goldens) {
    SCOPED_TRACE(golden.at("model").dump());
    const auto model = make(golden);
    const at::Tensor logits = logits_of(model->forward(batch_of(golden)));
    expect_spread(logits, golden);

    const at::Tensor flat = logits.flatten(0, -2);
    const at::Tensor loss =
        at::cross_entropy_loss(flat, formula::targets(flat.size(0), flat.size(1)));
    const double wanted_loss = golden.at("loss").get<double>();
    EXPECT_NEAR(loss.item<double>(), wanted_loss, 1e-5 * wanted_loss);
    loss.backward();

    const NamedTensors parameters = model->parameters();
    ASSERT_EQ(parameters.size(), golden.at("gradients").size());
    for (const auto& [name, value] : parameters) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(value.grad().defined());
      expect_summary(value.grad(), golden.at("gradients").at(name),
                     golden.at("gradient_tolerance").get<double>());
    }
  }
}

// What our reader makes of transformers' own config.json is what the oracle described.
TEST(TransformersGolden, ConfigsAreReadAsDescribed) {
  for (const json& golden : golden::read("models/transformers.json")) {
    if (golden.at("config").is_null()) continue;
    SCOPED_TRACE(golden.at("model").dump());
    config::Model wanted = golden::model(golden.at("model"));
    config::Model read = from_hugging_face_config(golden.at("config"), "config.json", 32);
    const auto classes = golden.at("classes").get<std::int64_t>();
    if (auto* gpt2 = std::get_if<config::Gpt2>(&wanted)) {
      gpt2->vocabulary = classes;
      EXPECT_EQ(std::get<config::Gpt2>(read), *gpt2);
    } else {
      auto llama = std::get<config::Llama>(wanted);
      llama.vocabulary = classes;
      auto& own = std::get<config::Llama>(read);
      if (!llama.head_size && own.head_size) llama.head_size = llama.width / llama.heads;
      EXPECT_EQ(own, llama);
    }
  }
}

TEST(TransformersGolden, RotaryFrequenciesAreTheirs) {
  const json goldens = golden::read("models/rotary.json");
  ASSERT_EQ(goldens.size(), 7U);
  for (const json& golden : goldens) {
    SCOPED_TRACE(golden.dump());
    const auto llama = std::get<config::Llama>(golden::model(golden.at("model")));
    const RotaryFrequencies own =
        rotary_frequencies(llama, golden.at("length").get<std::int64_t>());
    EXPECT_NEAR(own.scale, golden.at("scale").get<double>(), 1e-12);
    const auto wanted = golden.at("frequencies").get<std::vector<double>>();
    ASSERT_EQ(own.values.numel(), std::ssize(wanted));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(own.values.const_data_ptr<float>()[i], wanted[i], 1e-6 * wanted[i]) << i;
    }
  }
}

// The golden models on a GPU against themselves on the CPU in float32: attention and products run
// through other kernels there.
class GpuTransformers : public testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device on this machine";
    // TF32 has 10 bits of mantissa: too few to compare with the CPU.
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
  }

  struct Pass {
    at::Tensor logits;
    std::vector<at::Tensor> gradients;
  };
  static Pass pass(const json& golden, at::Device device, bool bf16) {
    const auto model = make(golden);
    model->set_training(false);
    model->to(device, at::MemoryFormat::Contiguous);
    Batch batch = batch_of(golden);
    for (at::Tensor* part : {&batch.input, &batch.documents, &batch.positions})
      if (part->defined()) *part = part->to(device);
    if (bf16) {
      at::autocast::set_autocast_enabled(at::kCUDA, true);
      at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
      at::autocast::increment_nesting();
    }
    const at::Tensor logits = logits_of(model->forward(batch));
    if (bf16) {
      if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
      at::autocast::set_autocast_enabled(at::kCUDA, false);
    }
    logits.to(at::kFloat).square().mean().backward();
    Pass result{logits.detach().cpu().to(at::kDouble), {}};
    for (const NamedTensor& parameter : model->parameters())
      result.gradients.push_back(parameter.value.grad().cpu().to(at::kDouble));
    return result;
  }

  // Relative to the norm. Gradients of single parameters may be nothing but rounding (a key's bias
  // has none in exact arithmetic), so all of them count together.
  static double distance(const Pass& a, const Pass& wanted) {
    double difference = (a.logits - wanted.logits).norm().item<double>();
    double norm = wanted.logits.norm().item<double>();
    double worst = difference / norm;
    difference = norm = 0;
    for (std::size_t i = 0; i < wanted.gradients.size(); ++i) {
      difference += (a.gradients[i] - wanted.gradients[i]).square().sum().item<double>();
      norm += wanted.gradients[i].square().sum().item<double>();
    }
    return std::max(worst, std::sqrt(difference / norm));
  }

  static void expect_close(bool bf16, double tolerance) {
    for (const json& golden : golden::read("models/transformers.json")) {
      const Pass wanted = pass(golden, at::kCPU, false);
      const double found = distance(pass(golden, at::Device(at::kCUDA, 0), bf16), wanted);
      std::printf("%s, %s: %.2e\n", golden.at("model").at("kind").get<std::string>().c_str(),
                  bf16 ? "bf16" : "fp32", found);
      EXPECT_LT(found, tolerance) << golden.at("model").dump();
    }
  }
};

// Sums in another order: a few times 2^-24 a layer.
TEST_F(GpuTransformers, AgreeWithTheCpuInFloat32) { expect_close(false, 1e-5); }

// bf16 has 8 bits of mantissa: 2^-9 in each product's input and output, some twenty products deep,
// and twice as many in the backward pass.
TEST_F(GpuTransformers, AgreeWithTheCpuInBfloat16) { expect_close(true, 0.05); }

}  // namespace
}  // namespace trainer::models

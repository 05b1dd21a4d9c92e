// The models against torchvision and torch.nn: tests/oracle/models.py describes the golden files.
#include <ATen/ops/cross_entropy_loss.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "models/model.h"
#include "models/summary.h"
#include "support/formula.h"
#include "support/golden.h"

namespace trainer::models {
namespace {

using nlohmann::json;

std::vector<std::int64_t> input_sizes(const json& golden) {
  return golden.at("input").get<std::vector<std::int64_t>>();
}

std::unique_ptr<Model> make(const json& golden, std::uint64_t seed = 0) {
  const auto sizes = input_sizes(golden);
  return make_model(golden::model(golden.at("model")), {sizes[1], sizes[2], sizes[3]},
                    golden.at("classes").get<std::int64_t>(), seed);
}

std::string shape_text(const at::Tensor& tensor) { return json(tensor.sizes().vec()).dump(); }

void expect_logits(const at::Tensor& logits, const json& golden, double tolerance) {
  const auto rows = golden.get<std::vector<std::vector<double>>>();
  ASSERT_EQ(logits.sizes(),
            at::IntArrayRef({std::ssize(rows), static_cast<std::int64_t>(rows[0].size())}));
  double largest = 0;
  for (const auto& row : rows) {
    for (const double value : row) largest = std::max(largest, std::abs(value));
  }
  for (std::size_t n = 0; n < rows.size(); ++n) {
    for (std::size_t c = 0; c < rows[n].size(); ++c) {
      const auto index = static_cast<std::int64_t>(n);
      const float own = logits.detach().select(0, index).contiguous().const_data_ptr<float>()[c];
      EXPECT_NEAR(own, rows[n][c], tolerance * largest) << "sample " << n << " class " << c;
    }
  }
}

TEST(Golden, NamesAndShapesAreTorchvisions) {
  const json golden = golden::read("models/names.json");
  ASSERT_EQ(golden.size(), 4U);
  for (const auto& [kind, wanted] : golden.items()) {
    const auto model = make_model(golden::model({{"kind", kind}}), {3, 64, 64}, 1000, 0);
    std::vector<std::string> names;
    for (const auto& [name, value] : model->state().tensors) {
      std::string shape = shape_text(value);
      for (std::size_t at = 0; (at = shape.find(',', at)) != std::string::npos; ++at) {
        shape.replace(at, 1, ", ");
      }
      names.push_back(name + " " + shape);
    }
    EXPECT_EQ(names, wanted.get<std::vector<std::string>>()) << kind;
  }
}

// A seed draws the numbers that PyTorch draws for it. They pass through vectorised logarithms and
// cosines, which differ by a rounding between processors.
TEST(Golden, InitialParametersAreTorchvisions) {
  for (const json& golden : golden::read("models/initial.json")) {
    SCOPED_TRACE(golden.at("model").dump());
    const auto model = make(golden, golden.at("seed").get<std::uint64_t>());
    const json& wanted = golden.at("samples");
    ASSERT_EQ(model->parameters().size(), wanted.size());
    for (const auto& [name, value] : model->parameters()) {
      const std::vector<double> own = samples(value);
      for (std::size_t i = 0; i < own.size(); ++i) {
        const double expected = wanted.at(name)[i].get<double>();
        EXPECT_NEAR(own[i], expected, 1e-6 * std::abs(expected)) << name << " sample " << i;
      }
    }
  }
}

TEST(Golden, OutputsAndGradientsAreTorchvisions) {
  for (const json& golden : golden::read("models/gradients.json")) {
    const auto mode = golden.at("mode").get<std::string>();
    SCOPED_TRACE(golden.at("model").dump() + golden.at("input").dump() + mode);
    const auto model = make(golden);
    formula::fill_state(model->state());
    model->set_training(mode == "train");

    const auto sizes = input_sizes(golden);
    const at::Tensor logits = model->forward(formula::model_input(sizes)).logits;
    expect_logits(logits, golden.at("logits"), golden.at("logit_tolerance").get<double>());
    const at::Tensor loss =
        at::cross_entropy_loss(logits, formula::targets(sizes[0], logits.size(1)));
    const double wanted_loss = golden.at("loss").get<double>();
    EXPECT_NEAR(loss.item<double>(), wanted_loss,
                golden.at("logit_tolerance").get<double>() * wanted_loss);
    loss.backward();

    const double tolerance = golden.at("gradient_tolerance").get<double>();
    for (const auto& [name, value] : model->parameters()) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(value.grad().defined());
      expect_summary(value.grad(), golden.at("gradients").at(name), tolerance);
    }
    ASSERT_EQ(model->buffers().size(), golden.at("buffers").size());
    for (const auto& [name, value] : model->buffers()) {
      SCOPED_TRACE(name);
      expect_summary(value, golden.at("buffers").at(name), 1e-5);
    }
  }
}

}  // namespace
}  // namespace trainer::models

// Tensors against the summaries of golden files.
#pragma once

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace trainer::models {

// The elements at flat positions 0, size / 3, size / 2 and size - 1.
inline std::vector<double> samples(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().reshape({-1}).to(at::kDouble);
  const double* values = flat.const_data_ptr<double>();
  const std::int64_t size = flat.numel();
  return {values[0], values[size / 3], values[size / 2], values[size - 1]};
}

// `tolerance` is relative to the norm.
inline void expect_summary(const at::Tensor& value, const nlohmann::json& golden,
                           double tolerance) {
  const double norm = golden.at("norm").get<double>();
  EXPECT_NEAR(value.detach().to(at::kDouble).norm().item<double>(), norm, tolerance * norm);
  const std::vector<double> own = samples(value);
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_NEAR(own[i], golden.at("samples")[i].get<double>(), tolerance * norm) << "sample " << i;
  }
}

}  // namespace trainer::models

#include "models/transformer_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <optional>

#include "core/recompute.h"

namespace trainer::models {
namespace {

// [n, heads, t, head], each head `times` times in a row.
at::Tensor repeat_heads(const at::Tensor& x, std::int64_t times) {
  const auto sizes = x.sizes();
  return x.unsqueeze(2)
      .expand({sizes[0], sizes[1], times, sizes[2], sizes[3]})
      .reshape({sizes[0], sizes[1] * times, sizes[2], sizes[3]});
}

at::Tensor additive(const at::Tensor& visible, at::ScalarType dtype) {
  const double hidden = -std::numeric_limits<double>::infinity();
  return at::zeros(visible.sizes(), visible.options().dtype(dtype))
      .masked_fill_(visible.logical_not(), hidden);
}

}  // namespace

at::Tensor LayerNorm::operator()(const at::Tensor& input) const {
  return at::layer_norm(input, weight.sizes(), weight, bias, eps);
}

at::Tensor RmsNorm::operator()(const at::Tensor& input) const {
  return at::rms_norm(input, weight.sizes(), weight, eps);
}

at::Tensor Embedding::operator()(const at::Tensor& indices) const {
  return at::embedding(weight, indices);
}

at::Tensor TransposedLinear::operator()(const at::Tensor& input) const {
  std::vector<std::int64_t> sizes = input.sizes().vec();
  const at::Tensor rows = input.reshape({-1, sizes.back()});
  sizes.back() = weight.size(1);
  const at::Tensor output = at::addmm(bias, rows, weight).view(sizes);
  return adapter ? adapter->add_to(output, input) : output;
}

std::pair<at::Tensor, at::Tensor> KeyValueCache::append(std::int64_t layer, const at::Tensor& keys,
                                                        const at::Tensor& values) {
  Layer& kept = layers_[static_cast<std::size_t>(layer)];
  if (!kept.keys.defined()) {
    std::vector<std::int64_t> sizes = keys.sizes().vec();
    sizes[2] = capacity_;
    kept.keys = at::empty(sizes, keys.options());
    kept.values = at::empty(sizes, values.options());
  }
  const std::int64_t tokens = keys.size(2);
  kept.keys.narrow(2, length_, tokens).copy_(keys);
  kept.values.narrow(2, length_, tokens).copy_(values);
  return {kept.keys.narrow(2, 0, length_ + tokens), kept.values.narrow(2, 0, length_ + tokens)};
}

// The fast kernels of CUDA take fewer heads of keys than of queries, but only without a mask, and
// those of the CPU take none: there the heads are repeated.
at::Tensor Attention::operator()(const at::Tensor& queries, const at::Tensor& keys,
                                 const at::Tensor& values) const {
  const std::int64_t groups = queries.size(1) / keys.size(1);
  const bool grouped = groups > 1 && queries.is_cuda() && !mask.defined();
  const bool repeated = groups > 1 && !grouped;
  const at::Tensor all_keys = repeated ? repeat_heads(keys, groups) : keys;
  const at::Tensor all_values = repeated ? repeat_heads(values, groups) : values;
  const auto optional_mask = mask.defined() ? std::optional<at::Tensor>(mask) : std::nullopt;
  const at::Tensor output = recompute::keep({queries, all_keys, all_values}, [&] {
    return at::scaled_dot_product_attention(queries, all_keys, all_values, optional_mask, dropout,
                                            causal, /*scale=*/std::nullopt, grouped);
  });
  return output.transpose(1, 2).reshape({queries.size(0), queries.size(2), -1});
}

at::Tensor document_mask(const at::Tensor& documents, at::ScalarType dtype) {
  const std::int64_t length = documents.size(1);
  const at::Tensor place = at::arange(length, documents.options());
  const at::Tensor visible = (documents.unsqueeze(2) == documents.unsqueeze(1))
                                 .logical_and_(place.unsqueeze(1) >= place.unsqueeze(0));
  return additive(visible.unsqueeze(1), dtype);
}

at::Tensor continuation_mask(std::int64_t past, std::int64_t queries,
                             const at::TensorOptions& options) {
  const at::TensorOptions integers = options.dtype(at::kLong);
  const at::Tensor place = at::arange(past, past + queries, integers).unsqueeze(1);
  const at::Tensor visible = place >= at::arange(past + queries, integers).unsqueeze(0);
  return additive(visible, c10::typeMetaToScalarType(options.dtype()));
}

at::ScalarType compute_dtype(at::Device device) {
  if (!at::autocast::is_autocast_enabled(device.type())) return at::kFloat;
  return at::autocast::get_autocast_dtype(device.type());
}

at::Tensor autocast_input(const at::Tensor& input) {
  if (!at::autocast::is_autocast_enabled(input.device().type())) return input;
  return input.to(at::autocast::get_autocast_dtype(input.device().type()));
}

}  // namespace trainer::models

#include "objectives/linear_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "kernels/cross_entropy.h"

namespace trainer::objectives {
namespace {

// Columns of the chunk's buffer, and the head's rows where it is cast anyway, are a multiple of
// this: matrix products are several times slower where rows do not begin at 16 bytes, as those of
// GPT-2's 50257 columns.
constexpr std::int64_t kColumnMultiple = 64;
constexpr std::int64_t kRowMultiple = 128;
constexpr std::int64_t kCudaChunkBytes = std::int64_t{256} << 20;
constexpr std::int64_t kCpuChunkBytes = std::int64_t{16} << 20;

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t multiple) {
  return divide_up(a, multiple) * multiple;
}

bool is_half(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

at::ScalarType product_type(const at::Tensor& hidden, const at::Tensor& head) {
  const at::DeviceType device = hidden.device().type();
  if (at::autocast::is_autocast_enabled(device)) return at::autocast::get_autocast_dtype(device);
  return c10::promoteTypes(hidden.scalar_type(), head.scalar_type());
}

at::ScalarType sum_type(at::ScalarType product) {
  return product == at::kDouble ? at::kDouble : at::kFloat;
}

// What the pass over the chunks reads. Rows are tokens.
struct Inputs {
  at::Tensor hidden;   // [rows, width]
  at::Tensor head;     // [V, width]
  at::Tensor targets;  // [rows]
  at::Tensor weights;  // [rows] or undefined
  LinearCrossEntropy options;
  at::ScalarType type;  // of the products
};

Inputs make_inputs(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets,
                   const at::Tensor& weights, const LinearCrossEntropy& options) {
  TORCH_CHECK(head.dim() == 2 && hidden.dim() >= 2 && hidden.size(-1) == head.size(1),
              "hidden states ", hidden.sizes(), " do not fit a head ", head.sizes());
  const std::int64_t rows = hidden.numel() / std::max<std::int64_t>(head.size(1), 1);
  TORCH_CHECK(targets.numel() == rows && (!weights.defined() || weights.numel() == rows), "for ",
              rows, " hidden states there are ", targets.numel(), " targets");
  Inputs inputs{.hidden = hidden.reshape({rows, head.size(1)}),
                .head = head,
                .targets = targets.reshape({-1}).contiguous(),
                .weights = {},
                .options = options,
                .type = product_type(hidden, head)};
  if (weights.defined()) inputs.weights = weights.reshape({-1}).contiguous();
  return inputs;
}

// The head in the products' type, [columns, width]. A copy gets rows of zeros up to the multiple:
// the logits of those, and then their gradients, are 0 and change nothing.
at::Tensor head_of_products(const at::Tensor& head, at::ScalarType type) {
  if (head.scalar_type() == type) return head;
  const std::int64_t vocabulary = head.size(0);
  const std::int64_t columns = round_up(vocabulary, kColumnMultiple);
  const at::Tensor cast = at::empty({columns, head.size(1)}, head.options().dtype(type));
  cast.narrow(0, 0, vocabulary).copy_(head);
  cast.narrow(0, vocabulary, columns - vocabulary).zero_();
  return cast;
}

std::int64_t chunk_of(const Inputs& inputs, std::int64_t columns) {
  const std::int64_t rows = inputs.hidden.size(0);
  std::int64_t chunk = inputs.options.chunk;
  if (chunk <= 0) {
    const std::int64_t bytes = inputs.hidden.is_cuda() ? kCudaChunkBytes : kCpuChunkBytes;
    const std::int64_t row = columns * static_cast<std::int64_t>(c10::elementSize(inputs.type));
    const std::int64_t most = std::max(kRowMultiple, bytes / row / kRowMultiple * kRowMultiple);
    // As many chunks as that takes, but of one size.
    const std::int64_t chunks = std::max<std::int64_t>(divide_up(rows, most), 1);
    chunk = round_up(divide_up(rows, chunks), kRowMultiple);
  }
  return std::min(chunk, rows);
}

// CUDA's products of two 16-bit matrices can give float32; the CPU's cannot.
bool widens(const at::Tensor& a, const at::Tensor& result) {
  return a.is_cuda() && is_half(a.scalar_type()) && result.scalar_type() == at::kFloat;
}

// result = a * b, whatever the result's type.
void multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor result) {
  if (a.scalar_type() == result.scalar_type()) {
    at::mm_out(result, a, b);
  } else if (widens(a, result)) {
    at::mm_outf(a, b, at::kFloat, result);
  } else {
    result.copy_(at::mm(a, b));
  }
}

// result += a * b
void add_product(const at::Tensor& a, const at::Tensor& b, at::Tensor result) {
  if (a.scalar_type() == result.scalar_type()) {
    at::addmm_out(result, result, a, b);
  } else if (widens(a, result)) {
    at::addmm_outf(result, a, b, at::kFloat, /*beta=*/1, /*alpha=*/1, result);
  } else {
    result.add_(at::mm(a, b));
  }
}

// Where the results of the pass go. What is undefined is not computed.
struct Results {
  at::Tensor losses;         // float32 [rows]
  at::Tensor hits;           // float32 [rows]
  at::Tensor hidden;         // [rows, width]: gradient of the weighted sum of the losses
  at::Tensor head_products;  // [columns, width] in sum_type: the same for the head
};

// `head` is that of head_of_products.
void run_chunks(const Inputs& inputs, const at::Tensor& head, const Results& results) {
  const std::int64_t rows = inputs.hidden.size(0);
  const std::int64_t vocabulary = inputs.head.size(0);
  const std::int64_t stride = round_up(vocabulary, kColumnMultiple);
  const std::int64_t chunk = chunk_of(inputs, stride);
  const at::Tensor buffer = at::empty({chunk, stride}, inputs.hidden.options().dtype(inputs.type));
  for (std::int64_t start = 0; start < rows; start += chunk) {
    const std::int64_t count = std::min(chunk, rows - start);
    const auto part = [start, count](const at::Tensor& whole) {
      return whole.defined() ? whole.narrow(0, start, count) : at::Tensor();
    };
    const at::Tensor states = part(inputs.hidden).to(inputs.type);
    const at::Tensor logits = buffer.narrow(0, 0, count).narrow(1, 0, head.size(0));
    multiply(states, head.t(), logits);
    kernels::cross_entropy(
        {.logits = logits.narrow(1, 0, vocabulary),
         .targets = part(inputs.targets),
         .factors = part(inputs.weights),
         .label_smoothing = inputs.options.label_smoothing,
         .z_loss = inputs.options.z_loss,
         .losses = part(results.losses),
         .hits = part(results.hits),
         .gradient = results.hidden.defined() || results.head_products.defined()});
    if (results.hidden.defined()) multiply(logits, head, part(results.hidden));
    if (!results.head_products.defined()) continue;
    if (start == 0) {
      multiply(logits.t(), states, results.head_products);
    } else {
      add_product(logits.t(), states, results.head_products);
    }
  }
}

at::Tensor per_row(const Inputs& inputs) {
  return at::empty({inputs.hidden.size(0)}, inputs.hidden.options().dtype(at::kFloat));
}

at::Tensor weighted_sum(const at::Tensor& losses, const at::Tensor& weights) {
  return weights.defined() ? losses.mul(weights).sum() : losses.sum();
}

constexpr const char* kHidden = "hidden";
constexpr const char* kHead = "head";

class LinearCrossEntropySum : public torch::autograd::Function<LinearCrossEntropySum> {
 public:
  // `inputs` are those of hidden and head, which are named for the graph's sake.
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& head, const Inputs& inputs) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const at::Tensor cast = head_of_products(inputs.head, inputs.type);
    Results results{.losses = per_row(inputs), .hits = {}, .hidden = {}, .head_products = {}};
    if (hidden.requires_grad()) {
      const at::Tensor gradient = at::empty(hidden.sizes(), hidden.options());
      results.hidden = gradient.view(inputs.hidden.sizes());
      context->saved_data[kHidden] = gradient;
    }
    if (head.requires_grad()) {
      results.head_products = at::empty(cast.sizes(), cast.options().dtype(sum_type(inputs.type)));
      if (inputs.hidden.size(0) == 0) results.head_products.zero_();
      context->saved_data[kHead] = results.head_products.narrow(0, 0, head.size(0));
    }
    context->saved_data["type"] = head.scalar_type();
    run_chunks(inputs, cast, results);
    return weighted_sum(results.losses, inputs.weights);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::NoGradGuard no_grad;
    TORCH_CHECK(!context->saved_data.empty(),
                "linear_cross_entropy has one backward pass: its gradients are used up");
    // Of one dimension: a 0-dim factor would be rounded to a 16-bit gradient's type first.
    const at::Tensor factor = gradients[0].reshape({1});
    at::Tensor hidden = take(*context, kHidden);
    if (hidden.defined()) hidden.mul_(factor);
    at::Tensor head = take(*context, kHead);
    if (head.defined()) head = head.mul_(factor).to(context->saved_data["type"].toScalarType());
    context->saved_data.clear();
    return {std::move(hidden), std::move(head), at::Tensor()};
  }

 private:
  // Moved out, so that nobody else holds it: a parameter without a gradient takes this one as its
  // own, where it would copy one that is shared.
  static at::Tensor take(torch::autograd::AutogradContext& context, const char* name) {
    const auto found = context.saved_data.find(name);
    if (found == context.saved_data.end()) return {};
    return std::move(found->second).toTensor();
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& head,
                                const at::Tensor& targets, const at::Tensor& weights,
                                const LinearCrossEntropy& options) {
  Inputs inputs;
  {
    const at::NoGradGuard no_grad;
    inputs = make_inputs(hidden, head, targets, weights, options);
  }
  if (at::GradMode::is_enabled() && (hidden.requires_grad() || head.requires_grad()))
    return LinearCrossEntropySum::apply(hidden, head, inputs);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const at::Tensor losses = per_row(inputs);
  run_chunks(inputs, head_of_products(head, inputs.type),
             {.losses = losses, .hits = {}, .hidden = {}, .head_products = {}});
  return weighted_sum(losses, inputs.weights);
}

TokenResults token_results(const at::Tensor& hidden, const at::Tensor& head,
                           const at::Tensor& targets, const LinearCrossEntropy& options) {
  const at::NoGradGuard no_grad;
  const Inputs inputs = make_inputs(hidden, head, targets, {}, options);
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const TokenResults results{.losses = per_row(inputs), .hits = per_row(inputs)};
  run_chunks(inputs, head_of_products(head, inputs.type),
             {.losses = results.losses, .hits = results.hits, .hidden = {}, .head_products = {}});
  return results;
}

}  // namespace trainer::objectives

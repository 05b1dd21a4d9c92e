#include "optim/ema.h"

#include <ATen/ops/_fused_sgd.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <utility>

#include "optim/tensor_state.h"

namespace trainer::optim {

Ema::Ema(double decay, NamedTensors values) : decay_(decay), values_(std::move(values)) {
  const c10::AutoGradMode no_grad(false);
  averages_.reserve(values_.size());
  for (const NamedTensor& value : values_) {
    TORCH_CHECK(
        value.value.scalar_type() == at::kFloat && value.value.is_non_overlapping_and_dense(),
        "averaged value ", value.name, " is not dense float32");
    averages_.push_back(value.value.detach().clone());
  }
}

// Note [Average as a step]: an SGD step p -= lr * (g + wd * p) with g = value, wd = -1 and
// lr = -(1 - decay) is p += (1 - decay) * (value - p). The fused kernel does it in one pass without
// a temporary and leaves every bit alone where found_inf is 1, which arithmetic with a weight of 0
// does not: 0 * inf is NaN, and an overflow may leave infinities in a batch norm's buffers.
void Ema::update(const at::Tensor& found_inf) {
  require_not_swapped();
  if (values_.empty()) return;
  const c10::AutoGradMode no_grad(false);
  std::vector<at::Tensor> values;
  values.reserve(values_.size());
  for (const NamedTensor& value : values_) values.push_back(value.value.detach());
  at::_fused_sgd_(averages_, values, {}, /*weight_decay=*/-1.0, /*momentum=*/0.0,
                  /*lr=*/-(1.0 - decay_), /*dampening=*/0.0, /*nesterov=*/false,
                  /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, found_inf);
}

void Ema::swap() {
  const c10::AutoGradMode no_grad(false);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    // Tensor by tensor, so that the largest is all the extra memory.
    const at::Tensor value = values_[i].value.detach().clone();
    values_[i].value.copy_(averages_[i]);
    averages_[i].copy_(value);
  }
  swapped_ = !swapped_;
}

State Ema::state() const {
  require_not_swapped();
  State state;
  for (std::size_t i = 0; i < values_.size(); ++i)
    state.tensors.push_back({values_[i].name, averages_[i]});
  return state;
}

void Ema::load(const State& state) {
  require_not_swapped();
  load_tensors(state.tensors, this->state().tensors, "EMA state");
}

void Ema::require_not_swapped() const {
  TORCH_CHECK(!swapped_, "the averages are swapped in; swap() them back first");
}

}  // namespace trainer::optim

#include "engine/trainer.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/random.h"

namespace trainer::engine {
namespace {

// torch.nn.utils.clip_grad_norm_'s guard against a division by zero.
constexpr double kClipEpsilon = 1e-6;

// As long as the schedule changes and the run lasts. 64 Mi entries are 256 MiB.
at::Tensor make_lr_table(const optim::Schedule& schedule, std::int64_t updates, at::Device device) {
  constexpr std::int64_t kMost = std::int64_t{64} << 20;
  std::int64_t length = schedule.length() + 1;
  if (updates > 0) length = std::min(length, updates);
  if (length > kMost) {
    throw Error(Exit::config, "schedule: changes over " + std::to_string(length) +
                                  " updates, which is more than the " + std::to_string(kMost) +
                                  " that fit; shorten schedule.length");
  }
  std::vector<float> values(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(schedule.at(static_cast<std::int64_t>(i)));
  return at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::kFloat)
      .clone()
      .to(device);
}

}  // namespace

Trainer::Trainer(const TrainerParts& parts, const TrainerOptions& options)
    : parts_(parts), options_(options) {
  const auto scalar = at::TensorOptions().dtype(at::kFloat).device(options.device);
  lr_table_ = make_lr_table(parts.schedule, options.updates, options.device);
  updates_ = at::zeros({1}, scalar.dtype(at::kLong));
  halted_ = at::zeros({}, scalar);
  loss_ = at::zeros({}, scalar);
  for (const at::Tensor& storage : parts.model.buffer_storage())
    saved_buffers_.push_back(at::empty_like(storage));
}

at::Tensor Trainer::step(const data::StepBatch& batch, std::int64_t micro) {
  const std::int64_t size = batch.size();
  largest_size_ = std::max(largest_size_, size);
  const precision::Untuned untuned(size < largest_size_);
  begin_step(batch.step());
  for (std::int64_t begin = 0; begin < size; begin += micro) {
    const std::int64_t end = std::min(begin + micro, size);
    accumulate(batch.micro(begin, end), batch.weight(), end == size);
  }
  return finish_step();
}

void Trainer::begin_step(std::int64_t step) {
  // Random layers draw from (seed, step) alone: nothing to save, and a step that is done again, or
  // by a resumed run, draws the same.
  at::manual_seed(mix(mix(options_.seed, static_cast<std::uint64_t>(StreamUse::step)),
                      static_cast<std::uint64_t>(step)));
  parts_.optimizer.zero_grad();
  loss_.zero_();
  save_buffers();
}

void Trainer::accumulate(const Batch& batch, double total_weight, bool last) {
  parts_.strategy.before_forward(last);
  objectives::Losses losses;
  {
    const precision::Scope autocast(options_.precision, options_.device);
    losses = parts_.objective.loss(parts_.model.forward(batch), batch);
  }
  // The mean over the global batch, whatever the cut: each micro-batch adds its share of it.
  // Of a step whose samples all have weight 0 it is 0.
  const at::Tensor share = losses.loss_sum / (total_weight > 0 ? total_weight : 1.0);
  loss_.add_(share.detach());
  parts_.strategy.before_backward(last);
  (parts_.scaler.scales() ? share * parts_.scaler.scale() : share).backward();
}

at::Tensor Trainer::finish_step() {
  const at::NoGradGuard no_grad;
  parts_.strategy.finish_step();
  parts_.strategy.sum(loss_);
  const at::Tensor& scale = parts_.scaler.scale();
  const at::Tensor norm = optim::global_norm(parts_.optimizer.gradients()) / scale;

  const at::Tensor bad_loss = at::isfinite(loss_).logical_not();
  const at::Tensor bad_gradient = at::isfinite(norm).logical_not();
  if (options_.on_nonfinite == config::OnNonfinite::stop) {
    // With loss scaling, gradients overflow in the normal course of things; a loss does not.
    halted_.logical_or_(parts_.scaler.scales() ? bad_loss : bad_loss.logical_or(bad_gradient));
  }
  const at::Tensor skip = bad_loss.logical_or(bad_gradient).logical_or_(halted_).to(at::kFloat);

  // One division in the optimiser's own pass both unscales and clips.
  at::Tensor divisor = parts_.scaler.scales() ? scale : at::Tensor();  // undefined stands for 1
  if (options_.clip_norm)
    divisor = scale * at::clamp((norm + kClipEpsilon) / *options_.clip_norm, 1.0);
  const at::Tensor lr =
      lr_table_.index_select(0, at::clamp(updates_, 0, lr_table_.size(0) - 1)).squeeze(0);
  at::Tensor row = at::stack({loss_, norm, lr, scale, skip, halted_});

  parts_.optimizer.step(lr, divisor, skip);
  if (parts_.ema != nullptr) parts_.ema->update(skip);
  if (parts_.scaler.scales()) parts_.scaler.update(bad_gradient.to(at::kFloat));
  updates_.add_(skip.logical_not());
  restore_buffers_where(skip);
  return row;
}

void Trainer::abandon() {
  const at::NoGradGuard no_grad;
  parts_.strategy.abandon();
  parts_.optimizer.zero_grad();
  const std::vector<at::Tensor>& storages = parts_.model.buffer_storage();
  for (std::size_t i = 0; i < storages.size(); ++i) storages[i].copy_(saved_buffers_[i]);
}

void Trainer::clear_halt() { halted_.zero_(); }

void Trainer::save_buffers() {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor>& storages = parts_.model.buffer_storage();
  for (std::size_t i = 0; i < storages.size(); ++i) saved_buffers_[i].copy_(storages[i]);
}

// Forward passes move batch norm's statistics before anyone knows whether the step counts: a
// skipped step leaves no trace, so they go back. `where` rather than arithmetic, since the new
// values may be NaN.
void Trainer::restore_buffers_where(const at::Tensor& flag) {
  const std::vector<at::Tensor>& storages = parts_.model.buffer_storage();
  const at::Tensor back = flag.to(at::kBool);
  for (std::size_t i = 0; i < storages.size(); ++i) {
    at::Tensor storage = storages[i];
    at::where_out(storage, back, saved_buffers_[i], storages[i]);
  }
}

State Trainer::state() const {
  State state;
  state.tensors.push_back({"updates", updates_});
  return state;
}

void Trainer::load(const State& state) {
  for (const NamedTensor& tensor : state.tensors) {
    if (tensor.name == "updates" && tensor.value.sizes() == updates_.sizes()) {
      updates_.copy_(tensor.value);
      return;
    }
  }
  throw Error(Exit::storage, "the checkpoint's trainer part lacks the count of updates");
}

}  // namespace trainer::engine

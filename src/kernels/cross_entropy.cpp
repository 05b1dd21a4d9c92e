#include "kernels/cross_entropy.h"

#include <ATen/ops/argmax.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <limits>
#include <string>

#include "core/error.h"
#include "core/tensors.h"
#include "kernels/cross_entropy_launch.h"

namespace trainer::kernels {
namespace {

void check(const CrossEntropy& task) {
  TORCH_CHECK(task.logits.dim() == 2 && task.logits.size(1) > 0 &&
                  (task.logits.stride(1) == 1 || task.logits.size(1) == 1),
              "logits are rows of values side by side, not ", task.logits.sizes());
  const std::int64_t rows = task.logits.size(0);
  const auto is_row = [rows](const at::Tensor& tensor, at::ScalarType type) {
    return tensor.dim() == 1 && tensor.size(0) == rows && tensor.scalar_type() == type &&
           tensor.is_contiguous();
  };
  TORCH_CHECK(is_row(task.targets, at::kLong) && is_row(task.losses, at::kFloat),
              "cross_entropy wants a target and a loss for each of ", rows, " rows");
  TORCH_CHECK(!task.factors.defined() || is_row(task.factors, at::kFloat), "factors do not fit");
  TORCH_CHECK(!task.hits.defined() || is_row(task.hits, at::kFloat), "hits do not fit");
}

#ifdef TRAINER_KERNELS
LogitsType type_of(const at::Tensor& logits) {
  switch (logits.scalar_type()) {
    case at::kFloat:
      return LogitsType::float32;
    case at::kBFloat16:
      return LogitsType::bfloat16;
    case at::kHalf:
      return LogitsType::float16;
    default:
      throw Error(Exit::config, std::string("cross-entropy on a GPU takes float32, bfloat16 or "
                                            "float16 logits, not ") +
                                    c10::toString(logits.scalar_type()) +
                                    "; choose one of them as precision.mode");
  }
}

void on_gpu(const CrossEntropy& task) {
  TORCH_CHECK(task.logits.size(1) <= std::numeric_limits<int>::max(), "too many columns");
  CrossEntropyLaunch launched{};
  launched.logits = task.gradient ? task.logits.mutable_data_ptr()
                                  : const_cast<void*>(task.logits.const_data_ptr());
  launched.type = type_of(task.logits);
  launched.stride = task.logits.stride(0);
  launched.rows = task.logits.size(0);
  launched.columns = static_cast<int>(task.logits.size(1));
  launched.targets = task.targets.const_data_ptr<std::int64_t>();
  launched.ignored = kIgnored;
  launched.factors = task.factors.defined() ? task.factors.const_data_ptr<float>() : nullptr;
  launched.label_smoothing = static_cast<float>(task.label_smoothing);
  launched.z_loss = static_cast<float>(task.z_loss);
  launched.losses = task.losses.mutable_data_ptr<float>();
  launched.hits = task.hits.defined() ? task.hits.mutable_data_ptr<float>() : nullptr;
  launched.gradient = task.gradient;
  const at::Device device = task.logits.device();
  const c10::DeviceGuard guard(device);
  const c10::impl::VirtualGuardImpl streams(device.type());
  if (const char* failure = launch(launched, streams.getStream(device).native_handle()))
    throw Error(Exit::device, std::string("cross-entropy on the GPU: ") + failure);
}
#endif

// Which rows count, by columns [rows, 1].
struct Targets {
  at::Tensor index;    // 0 where there is none in the vocabulary
  at::Tensor ignored;  // bool
  at::Tensor foreign;  // bool: outside of the vocabulary and not ignored
};

Targets read_targets(const CrossEntropy& task) {
  const std::int64_t columns = task.logits.size(1);
  const at::Tensor target = task.targets.unsqueeze(1);
  Targets read;
  read.ignored = target.eq(kIgnored);
  read.foreign =
      target.lt(0).logical_or(target.ge(columns)).logical_and(read.ignored.logical_not());
  if (target.is_cpu() && read.foreign.any().item<bool>()) {
    const auto wrong = target.masked_select(read.foreign)[0].item<std::int64_t>();
    throw Error(Exit::data, "a target is token " + std::to_string(wrong) +
                                ", and the vocabulary has " + std::to_string(columns) +
                                "; use the tokenizer that the model was made for");
  }
  read.index = target.masked_fill(read.ignored.logical_or(read.foreign), 0);
  return read;
}

// `wide` holds the logits and gets the gradient.
void write_gradient(const CrossEntropy& task, const Targets& targets, const at::Tensor& lse,
                    const at::Tensor& wide) {
  const double share = task.label_smoothing / static_cast<double>(wide.size(1));
  wide.sub_(lse).exp_();
  if (task.z_loss != 0) wide.mul_(lse.mul(2 * task.z_loss).add_(1));
  if (share != 0) wide.sub_(share);
  wide.scatter_add_(
      1, targets.index,
      at::scalar_tensor(task.label_smoothing - 1, wide.options()).expand({wide.size(0), 1}));
  if (task.factors.defined()) wide.mul_(task.factors.unsqueeze(1));
  // A fill, since the product of an ignored row's NaN and 0 would be NaN.
  wide.masked_fill_(targets.ignored, 0);
  if (!wide.is_same(task.logits)) task.logits.copy_(wide);
}

void by_operators(const CrossEntropy& task) {
  const Targets targets = read_targets(task);
  const bool is_double = task.logits.scalar_type() == at::kDouble;
  const at::Tensor wide = task.logits.to(is_double ? at::kDouble : at::kFloat);
  const at::Tensor lse =
      at::logsumexp(wide, {1}, /*keepdim=*/true)
          .masked_fill_(targets.foreign, std::numeric_limits<double>::quiet_NaN());
  const double eps = task.label_smoothing;
  const at::Tensor losses = lse.sub(wide.gather(1, targets.index)).mul_(1 - eps);
  if (eps != 0) losses.add_(lse.sub(wide.mean(1, /*keepdim=*/true)), eps);
  if (task.z_loss != 0) losses.add_(lse.square(), task.z_loss);
  task.losses.copy_(losses.masked_fill_(targets.ignored, 0).squeeze(1));
  if (task.hits.defined()) {
    const at::Tensor is_number = lse.eq(lse).squeeze(1);
    task.hits.copy_(at::argmax(wide, 1).eq(task.targets).logical_and(is_number));
  }
  if (task.gradient) write_gradient(task, targets, lse, wide);
}

}  // namespace

void cross_entropy(const CrossEntropy& task) {
  check(task);
  if (task.logits.size(0) == 0) return;
#ifdef TRAINER_KERNELS
  if (task.logits.is_cuda()) return on_gpu(task);
#endif
  by_operators(task);
}

}  // namespace trainer::kernels

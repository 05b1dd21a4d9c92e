#include "optim/optimizer.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "optim/groups.h"
#include "optim/tensor_state.h"

namespace trainer::optim {
namespace {

using Tensors = std::vector<at::Tensor>;

// What is kept for each parameter: its name's suffix, and whether it is a step count rather than a
// tensor of the parameter's shape.
struct Slot {
  std::string name;
  bool counts_steps = false;
};

// Parameters that share settings, and their state: slots[s][i] belongs to parameters[i].
struct Group {
  GroupSettings settings;
  std::vector<std::string> names;
  Tensors parameters;
  std::vector<Tensors> slots;
};

// The members of a group that have a gradient now.
struct Active {
  Tensors parameters, gradients;
  std::vector<Tensors> slots;
};

at::Tensor make_slot(const Slot& slot, const at::Tensor& parameter) {
  // zeros_like keeps the strides, which the fused kernels want equal.
  return slot.counts_steps ? at::zeros({}, parameter.options().requires_grad(false))
                           : at::zeros_like(parameter);
}

// Note [Gradient layout]: the fused kernels walk the memory of parameter, gradient and state side
// by side; CUDA refuses differing strides and the CPU kernels do not look. Autograd gives gradients
// the parameter's strides, so the copy here is for gradients that came from elsewhere.
at::Tensor in_layout_of(const at::Tensor& parameter, const at::Tensor& gradient) {
  for (std::int64_t d = 0; d < parameter.dim(); ++d) {
    if (parameter.size(d) != 1 && parameter.stride(d) != gradient.stride(d))
      return at::empty_like(parameter).copy_(gradient);
  }
  return gradient;
}

Active active_members(const Group& group) {
  Active active;
  active.slots.resize(group.slots.size());
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const at::Tensor& gradient = group.parameters[i].grad();
    if (!gradient.defined()) continue;
    active.parameters.push_back(group.parameters[i]);
    active.gradients.push_back(in_layout_of(group.parameters[i], gradient));
    for (std::size_t s = 0; s < group.slots.size(); ++s)
      active.slots[s].push_back(group.slots[s][i]);
  }
  return active;
}

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

// Groups, gradients and state; the rule that updates a group is the derived class's.
class GroupedOptimizer : public Optimizer {
 public:
  GroupedOptimizer(const config::OptimCommon& config, const NamedTensors& parameters,
                   const std::vector<Slot>& slots) {
    std::vector<std::string> names;
    for (const NamedTensor& parameter : parameters) names.push_back(parameter.name);
    const std::vector<GroupSettings> settings = assign_groups(config, names);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].value.requires_grad()) add(parameters[i], settings[i], slots);
    }
  }

  void step(const at::Tensor& lr, const at::Tensor& grad_divisor,
            const at::Tensor& found_inf) override {
    const c10::AutoGradMode no_grad(false);
    for (const Group& group : groups_) {
      Active active = active_members(group);
      if (active.parameters.empty()) continue;
      const double factor = group.settings.lr_factor;
      update(active, group.settings, factor == 1.0 ? lr : at::mul(lr, factor),
             if_defined(grad_divisor), found_inf);
    }
  }

  void zero_grad() override {
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  }

  std::vector<at::Tensor> gradients() const override {
    Tensors defined;
    for (const at::Tensor& parameter : parameters_)
      if (parameter.grad().defined()) defined.push_back(parameter.grad());
    return defined;
  }

  State state() const override { return State{state_, nlohmann::json::object()}; }

  void load(const State& state) override { load_tensors(state.tensors, state_, "optimizer state"); }

 protected:
  virtual void update(Active& active, const GroupSettings& settings, const at::Tensor& lr,
                      const std::optional<at::Tensor>& grad_divisor,
                      const at::Tensor& found_inf) = 0;

 private:
  void add(const NamedTensor& parameter, const GroupSettings& settings,
           const std::vector<Slot>& slots) {
    TORCH_CHECK(parameter.value.scalar_type() == at::kFloat &&
                    parameter.value.is_non_overlapping_and_dense(),
                "parameter ", parameter.name, " is not dense float32");
    auto group = std::find_if(groups_.begin(), groups_.end(),
                              [&](const Group& g) { return g.settings == settings; });
    if (group == groups_.end()) {
      group = groups_.insert(group, Group{settings, {}, {}, {}});
      group->slots.resize(slots.size());
    }
    parameters_.push_back(parameter.value);
    group->parameters.push_back(parameter.value);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      const at::Tensor slot = make_slot(slots[s], parameter.value);
      group->slots[s].push_back(slot);
      state_.push_back({parameter.name + "." + slots[s].name, slot});
    }
  }

  std::vector<Group> groups_;
  Tensors parameters_;  // of all groups, in the order given
  NamedTensors state_;  // the same tensors as the groups' slots
};

// Momentum starts at zero instead of at the first gradient: PyTorch's first step without dampening
// is momentum * 0 + gradient all the same, and the state has one layout from the start.
class Sgd : public GroupedOptimizer {
 public:
  Sgd(const config::Sgd& config, const NamedTensors& parameters)
      : GroupedOptimizer(
            config, parameters,
            config.momentum != 0 ? std::vector<Slot>{{"momentum_buffer"}} : std::vector<Slot>{}),
        momentum_(config.momentum),
        nesterov_(config.nesterov) {}

 protected:
  void update(Active& active, const GroupSettings& settings, const at::Tensor& lr,
              const std::optional<at::Tensor>& grad_divisor, const at::Tensor& found_inf) override {
    const Tensors buffers = active.slots.empty() ? Tensors{} : std::move(active.slots[0]);
    at::_fused_sgd_(active.parameters, active.gradients, buffers, settings.weight_decay, momentum_,
                    lr, /*dampening=*/0.0, nesterov_, /*maximize=*/false, /*is_first_step=*/false,
                    grad_divisor, found_inf);
  }

 private:
  double momentum_;
  bool nesterov_;
};

// Adam (Kingma & Ba 2015) with weight decay in the gradient, or AdamW (Loshchilov & Hutter 2019)
// with it decoupled.
class Adam : public GroupedOptimizer {
 public:
  Adam(const config::Adam& config, const NamedTensors& parameters)
      : GroupedOptimizer(config, parameters, {{"exp_avg"}, {"exp_avg_sq"}, {"step", true}}),
        beta1_(config.betas.at(0)),
        beta2_(config.betas.at(1)),
        eps_(config.eps),
        decoupled_(config.decoupled) {}

 protected:
  void update(Active& active, const GroupSettings& settings, const at::Tensor& lr,
              const std::optional<at::Tensor>& grad_divisor, const at::Tensor& found_inf) override {
    Tensors& steps = active.slots[2];
    at::_foreach_add_(steps, at::rsub(found_inf, 1));  // a skipped update is not counted
    const auto fused = [&](auto&& kernel) {
      kernel(active.parameters, active.gradients, active.slots[0], active.slots[1], Tensors{},
             steps, lr, beta1_, beta2_, settings.weight_decay, eps_, /*amsgrad=*/false,
             /*maximize=*/false, grad_divisor, found_inf);
    };
    if (decoupled_)
      fused([](auto&&... a) { at::_fused_adamw_(std::forward<decltype(a)>(a)...); });
    else
      fused([](auto&&... a) { at::_fused_adam_(std::forward<decltype(a)>(a)...); });
  }

 private:
  double beta1_, beta2_, eps_;
  bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const config::Optim& config,
                                          const NamedTensors& parameters) {
  if (const auto* sgd = std::get_if<config::Sgd>(&config))
    return std::make_unique<Sgd>(*sgd, parameters);
  return std::make_unique<Adam>(std::get<config::Adam>(config), parameters);
}

at::Tensor global_norm(const std::vector<at::Tensor>& gradients) {
  const c10::AutoGradMode no_grad(false);
  if (gradients.empty()) return at::zeros({}, at::kFloat);
  const Tensors norms = at::_foreach_norm(gradients, 2, at::kFloat);
  return at::linalg_vector_norm(at::stack(norms), 2);
}

}  // namespace trainer::optim

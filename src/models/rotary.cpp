#include "models/rotary.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/where.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace trainer::models {
namespace {

using Kind = config::RopeScaling::Kind;

constexpr std::int64_t kFewestRows = 1024;

std::int64_t head_size(const config::Llama& config) {
  return config.head_size.value_or(config.width / config.heads);
}

double original_context(const config::Llama& config) {
  const std::int64_t original = config.rope_scaling.original_context;
  return static_cast<double>(original > 0 ? original : config.context);
}

// base^(2i / head) of each pair i.
at::Tensor wave_factors(double base, std::int64_t head) {
  const at::Tensor exponents = at::arange(0, head, 2, at::kLong).to(at::kFloat).div_(head);
  return at::pow(base, exponents);
}

at::Tensor llama3(const at::Tensor& plain, const config::RopeScaling& scaling, double context) {
  const double low_wave = context / scaling.low_freq_factor;
  const double high_wave = context / scaling.high_freq_factor;
  const at::Tensor wave = plain.reciprocal().mul(2 * std::numbers::pi);
  const at::Tensor divided = at::where(wave > low_wave, plain / scaling.factor, plain);
  const at::Tensor smooth = (wave.reciprocal().mul(context) - scaling.low_freq_factor) /
                            (scaling.high_freq_factor - scaling.low_freq_factor);
  const at::Tensor smoothed = (1 - smooth) * divided / scaling.factor + smooth * divided;
  const at::Tensor between = (wave >= high_wave).logical_and(wave <= low_wave);
  return at::where(between, smoothed, divided);
}

// The pair that turns `rotations` times within the original context (formula 17 of the paper).
double correction_pair(double rotations, std::int64_t head, double base, double context) {
  return static_cast<double>(head) * std::log(context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(base));
}

// 1 for pairs that keep their frequency, 0 for those that are interpolated.
at::Tensor yarn_kept(const config::Llama& config, std::int64_t head) {
  const config::RopeScaling& scaling = config.rope_scaling;
  const double context = original_context(config);
  double low = correction_pair(scaling.beta_fast, head, config.rope_theta, context);
  double high = correction_pair(scaling.beta_slow, head, config.rope_theta, context);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head - 1));
  if (low == high) high += 0.001;  // as the reference does, against a division by 0
  const at::Tensor ramp = (at::arange(head / 2, at::kFloat) - low) / (high - low);
  return 1 - ramp.clamp(0, 1);
}

RotaryFrequencies yarn(const config::Llama& config, std::int64_t head) {
  const config::RopeScaling& scaling = config.rope_scaling;
  const at::Tensor factors = wave_factors(config.rope_theta, head);
  const at::Tensor kept = yarn_kept(config, head);
  const at::Tensor interpolated = (factors * scaling.factor).reciprocal();
  const double usual = scaling.factor <= 1 ? 1 : 0.1 * std::log(scaling.factor) + 1;
  return {interpolated * (1 - kept) + factors.reciprocal() * kept,
          scaling.attention_factor.value_or(usual)};
}

double dynamic_base(const config::Llama& config, std::int64_t head, std::int64_t length) {
  const config::RopeScaling& scaling = config.rope_scaling;
  const double original = original_context(config);
  const double longest = std::max(static_cast<double>(length), original);
  const auto size = static_cast<double>(head);
  return config.rope_theta *
         std::pow(scaling.factor * longest / original - (scaling.factor - 1), size / (size - 2));
}

// `sign` 1 turns, -1 turns back.
at::Tensor turn(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                double sign) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor first = x.narrow(-1, 0, half);
  const at::Tensor second = x.narrow(-1, half, half);
  const at::Tensor turned = at::empty_like(x, at::MemoryFormat::Contiguous);
  turned.narrow(-1, 0, half).copy_(at::mul(first, cosine).addcmul_(second, sine, -sign));
  turned.narrow(-1, half, half).copy_(at::mul(second, cosine).addcmul_(first, sine, sign));
  return turned;
}

// The gradient of a rotation is the rotation back, so nothing of the input is kept. The tables are
// no saved variables: what packs those (checkpointing, offload) has nothing to do with them.
struct Turn : torch::autograd::Function<Turn> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cosine, const at::Tensor& sine) {
    context->saved_data["cosine"] = cosine;
    context->saved_data["sine"] = sine;
    return turn(x, cosine, sine, 1);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const at::Tensor cosine = context->saved_data["cosine"].toTensor();
    const at::Tensor sine = context->saved_data["sine"].toTensor();
    return {turn(gradients[0], cosine, sine, -1), {}, {}};
  }
};

}  // namespace

RotaryFrequencies rotary_frequencies(const config::Llama& config, std::int64_t length) {
  const at::NoGradGuard no_grad;
  const std::int64_t head = head_size(config);
  const config::RopeScaling& scaling = config.rope_scaling;
  const auto plain = [&](double base) { return wave_factors(base, head).reciprocal(); };
  switch (scaling.kind) {
    case Kind::none:
      return {plain(config.rope_theta)};
    case Kind::linear:
      return {plain(config.rope_theta) / scaling.factor};
    case Kind::dynamic:
      return {plain(dynamic_base(config, head, length))};
    case Kind::llama3:
      return {llama3(plain(config.rope_theta), scaling, original_context(config))};
    case Kind::yarn:
      return yarn(config, head);
  }
  return {};
}

at::Tensor Rotation::operator()(const at::Tensor& x) const { return Turn::apply(x, cosine, sine); }

Rotary::Table Rotary::make_table(std::int64_t stretched_for, std::int64_t rows,
                                 at::Device device) const {
  const at::NoGradGuard no_grad;
  const RotaryFrequencies frequencies = rotary_frequencies(config_, stretched_for);
  const at::Tensor places = at::arange(rows, at::kFloat);
  const at::Tensor angles = at::outer(places, frequencies.values).unsqueeze(1);
  return {stretched_for, angles.cos().mul_(frequencies.scale).to(device),
          angles.sin().mul_(frequencies.scale).to(device)};
}

// With dynamic scaling a sequence longer than the original context needs a table of its length, of
// which the latest is kept. Other tables have some rows more, so that a decoder makes few of them.
const Rotary::Table& Rotary::table(std::int64_t length, at::Device device) {
  const bool stretched = config_.rope_scaling.kind == Kind::dynamic &&
                         static_cast<double>(length) > original_context(config_);
  const std::int64_t stretched_for = stretched ? length : 0;
  for (const Table& made : tables_) {
    if (made.stretched_for == stretched_for && made.cosine.size(0) >= length &&
        made.cosine.device() == device) {
      return made;
    }
  }
  if (stretched) std::erase_if(tables_, [](const Table& made) { return made.stretched_for > 0; });
  const auto enough = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max(length, kFewestRows))));
  return tables_.emplace_back(make_table(stretched_for, stretched ? length : enough, device));
}

Rotation Rotary::at(std::int64_t first, std::int64_t tokens, at::Device device) {
  const Table& made = table(first + tokens, device);
  return {made.cosine.narrow(0, first, tokens), made.sine.narrow(0, first, tokens)};
}

Rotation Rotary::at(const at::Tensor& positions, std::int64_t length) {
  const Table& made = table(length, positions.device());
  const auto pick = [&](const at::Tensor& of) {
    return at::index_select(of, 0, positions.reshape({-1}))
        .view({positions.size(0), positions.size(1), 1, of.size(2)});
  };
  return {pick(made.cosine), pick(made.sine)};
}

}  // namespace trainer::models

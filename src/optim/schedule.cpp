#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "core/error.h"

namespace trainer::optim {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

const config::ScheduleCommon& common(const config::Schedule& schedule) {
  return std::visit([](const auto& kind) -> const config::ScheduleCommon& { return kind; },
                    schedule);
}

double linear(double from, double to, double progress) { return from + (to - from) * progress; }

double cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

// How far `update` is on the way from `begin` to `end`; 1 where there is no way to go.
double progress(double update, double begin, double end) {
  return end > begin ? (update - begin) / (end - begin) : 1.0;
}

double one_cycle(const config::OneCycle& cycle, double update, double length) {
  const double top = cycle.rise * length - 1;
  const double end = length - 1;
  if (update <= top) return cosine(cycle.start, 1, progress(update, 0, top));
  return cosine(1, cycle.final, std::min(1.0, progress(update, top, end)));
}

// The schedule's end: its own length, else the run's.
std::int64_t end_of(const config::ScheduleCommon& schedule, const Horizon& horizon) {
  if (schedule.length) return to_updates(*schedule.length, horizon);
  return horizon.updates > 0 ? horizon.updates : kForever;
}

// Constant and multistep end by themselves; the other shapes cannot do without a length.
void require_length(std::int64_t length) {
  if (length == kForever)
    throw Error(
        Exit::config,
        "schedule.length: auto follows train.length, which is a time and gives no number of "
        "updates; give schedule.length in steps, epochs or samples");
}

void require_fit(std::int64_t warmup, std::int64_t decay, std::int64_t length) {
  if (warmup <= length && decay <= length - warmup) return;
  const std::string parts = decay > 0
                                ? "schedule.warmup and schedule.decay: " + std::to_string(warmup) +
                                      " and " + std::to_string(decay) + " updates do"
                                : "schedule.warmup: " + std::to_string(warmup) + " updates do";
  throw Error(Exit::config, parts + " not fit in the schedule's length of " +
                                std::to_string(length) +
                                " updates; shorten the one or lengthen the other");
}

}  // namespace

std::int64_t to_updates(const config::Length& length, const Horizon& horizon) {
  using Unit = config::Length::Unit;
  double updates = 0;
  switch (length.unit) {
    case Unit::steps:
      updates = length.value;
      break;
    case Unit::epochs:
      updates = length.value * static_cast<double>(horizon.updates_per_epoch);
      break;
    case Unit::samples:
      updates = length.value / static_cast<double>(horizon.samples_per_update);
      break;
    case Unit::tokens:
      if (horizon.tokens_per_sample == 0)
        throw Error(Exit::config,
                    "images have no tokens; give the length in steps, epochs or samples");
      updates = length.value /
                static_cast<double>(horizon.samples_per_update * horizon.tokens_per_sample);
      break;
    case Unit::seconds:
      throw Error(Exit::config,
                  "a time cannot be turned into updates; give the length in steps, epochs or "
                  "samples");
  }
  // 2^62 is far beyond any run and still safe to add to.
  updates = std::min(updates, 0x1.0p62);
  return static_cast<std::int64_t>(std::ceil(updates - 1e-9 * std::max(1.0, updates)));
}

Schedule::Schedule(const config::Schedule& config, double lr, const Horizon& horizon)
    : config_(config), lr_(lr) {
  warmup_ = to_updates(common(config_).warmup, horizon);
  length_ = end_of(common(config_), horizon);
  std::visit(Overloaded{
                 [&](const config::Constant&) { length_ = std::min(length_, warmup_); },
                 [&](const config::Step& step) {
                   require_length(length_);
                   drops_ = {std::max<std::int64_t>(1, to_updates(step.every, horizon))};
                 },
                 [&](const config::Multistep& steps) {
                   for (const config::Length& at : steps.at)
                     drops_.push_back(to_updates(at, horizon));
                   std::sort(drops_.begin(), drops_.end());
                   const std::int64_t last = drops_.empty() ? 0 : drops_.back();
                   length_ = std::min(length_, std::max(warmup_, last));
                 },
                 [&](const config::OneCycle&) {
                   require_length(length_);
                   if (warmup_ > 0)
                     throw Error(Exit::config,
                                 "schedule.warmup: one_cycle has a warm-up of its own; remove "
                                 "warmup and set schedule.rise and schedule.start");
                 },
                 [&](const config::Wsd& wsd) {
                   require_length(length_);
                   drops_ = {to_updates(wsd.decay, horizon)};
                   require_fit(warmup_, drops_.front(), length_);
                 },
                 [&](const auto&) {  // linear, cosine
                   require_length(length_);
                   require_fit(warmup_, 0, length_);
                 },
             },
             config_);
}

double Schedule::at(std::int64_t update) const {
  update = std::min(update, length_);
  const auto u = static_cast<double>(update);
  const auto warmup = static_cast<double>(warmup_);
  const auto length = static_cast<double>(length_);
  if (update < warmup_)
    return lr_ * linear(common(config_).warmup_start, 1, progress(u, 0, warmup));

  const double factor = std::visit(
      Overloaded{
          [&](const config::Constant&) { return 1.0; },
          [&](const config::Linear& shape) {
            return linear(1, shape.final, progress(u, warmup, length));
          },
          [&](const config::Cosine& shape) {
            return cosine(1, shape.final, progress(u, warmup, length));
          },
          [&](const config::Step& shape) {
            const std::int64_t passed = update / drops_.front();
            return std::pow(shape.gamma, static_cast<double>(passed));
          },
          [&](const config::Multistep& shape) {
            const auto passed = std::upper_bound(drops_.begin(), drops_.end(), update);
            return std::pow(shape.gamma, static_cast<double>(passed - drops_.begin()));
          },
          [&](const config::OneCycle& shape) { return one_cycle(shape, u, length); },
          [&](const config::Wsd& shape) {
            const std::int64_t decay_start = length_ - drops_.front();
            if (drops_.front() == 0 || update < decay_start) return 1.0;
            return linear(1, shape.final, progress(u, static_cast<double>(decay_start), length));
          },
      },
      config_);
  return lr_ * factor;
}

std::int64_t Schedule::length() const { return length_; }

}  // namespace trainer::optim

// Learning rate schedules: pure functions of the number of updates done. No torch here.
//
// With u the update's index (0 is the first of the run), W the warm-up in updates and L the length
// in updates, warm-up included, the learning rate is lr * factor(min(u, L)):
//   u < W      warmup_start + (1 - warmup_start) * u / W, so that update W is the first at full lr
//   constant   1
//   linear     1 + (final - 1) * p,                       p = (u - W) / (L - W)
//   cosine     final + (1 - final) * (1 + cos(pi p)) / 2  (Loshchilov & Hutter 2017, one period)
//   step       gamma^floor(u / every)
//   multistep  gamma^(number of `at` that are <= u)
//   one_cycle  cosine from start to 1 over [0, rise * L - 1], then cosine to final at L - 1
//              (Smith & Topin 2018, with the end points of PyTorch's OneCycleLR)
//   wsd        1, and over the last D = decay updates 1 + (final - 1) * (u - (L - D)) / D
// step and multistep count from the run's first update: a warm-up does not move their drops.
#pragma once

#include <cstdint>
#include <vector>

#include "config/experiment.h"

namespace trainer::optim {

// What turns a Length into updates.
struct Horizon {
  std::int64_t updates = 0;  // of the whole run (train.length); 0 where it is a time
  std::int64_t updates_per_epoch = 0;
  std::int64_t samples_per_update = 0;
  std::int64_t tokens_per_sample = 0;  // 0 for images
};
// Rounded up, save that a product within 1e-9 of a whole number is that number (0.07 epochs of
// 100 updates are 7). Throws Error(config) for a time, and for tokens of images.
std::int64_t to_updates(const config::Length& length, const Horizon& horizon);

class Schedule {
 public:
  // Throws Error(config) where schedule.length is auto and train.length a time, save for constant
  // and multistep, which need no length; where warm-up and decay do not fit in the length; and for
  // a warm-up of one_cycle, whose warm-up is `rise`.
  Schedule(const config::Schedule& config, double lr, const Horizon& horizon);
  // Learning rate of update `update` (0 is the first).
  double at(std::int64_t update) const;
  // Updates after which `at` no longer changes; always finite.
  std::int64_t length() const;

 private:
  config::Schedule config_;
  double lr_;
  std::int64_t warmup_ = 0;
  std::int64_t length_ = 0;
  std::vector<std::int64_t> drops_;  // multistep's `at`; step's `every`; wsd's `decay`
};

}  // namespace trainer::optim

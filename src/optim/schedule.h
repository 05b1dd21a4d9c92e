// Learning rate schedules: pure functions of the number of updates done. No torch here.
#pragma once

#include <cstdint>
#include <vector>

#include "config/experiment.h"

namespace trainer::optim {

// What turns a Length into updates.
struct Horizon {
  std::int64_t updates = 0;          // of the whole run (train.length); 0 where it is a time
  std::int64_t updates_per_epoch = 0;
  std::int64_t samples_per_update = 0;
};
// Rounded up. Throws Error(config) for a time or tokens.
std::int64_t to_updates(const config::Length& length, const Horizon& horizon);

class Schedule {
 public:
  Schedule(const config::Schedule& config, double lr, const Horizon& horizon);
  // Learning rate of update `update` (0 is the first).
  double at(std::int64_t update) const;
  // Updates after which `at` no longer changes.
  std::int64_t length() const;

 private:
  config::Schedule config_;
  double lr_;
  Horizon horizon_;
  std::int64_t warmup_ = 0;
  std::int64_t length_ = 0;
};

}  // namespace trainer::optim

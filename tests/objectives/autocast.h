// Autocast as the trainer sets it around a micro-batch.
#pragma once

#include <ATen/autocast_mode.h>

namespace trainer {

class Autocast {
 public:
  explicit Autocast(at::DeviceType device, at::ScalarType type = at::kBFloat16)
      : device_(device), dtype_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
    at::autocast::set_autocast_dtype(device_, dtype_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  at::ScalarType dtype_before_;
};

}  // namespace trainer

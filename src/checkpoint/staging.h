// Copies of the parts' tensors on the host, taken while training waits and written while it goes
// on. Internal.
#pragma once

#include <c10/core/Event.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tensors.h"

namespace trainer::checkpoint {

// Host buffers by the name of what they hold, kept from one save to the next, since page-locked
// memory is slow to get. One copy at a time: the buffers belong to the last one.
class Staging {
 public:
  // Starts a new copy: buffers that it does not ask for are let go by `end`.
  void begin();
  // A contiguous host tensor with what `source` holds now. From the CPU it is complete at return;
  // from a device, in the order of its current stream, once the events of `end` have passed.
  at::Tensor copy(const std::string& key, const at::Tensor& source);
  // The events after which all copies are complete, one a device.
  std::vector<c10::Event> end();

 private:
  struct Buffer {
    at::Tensor tensor;
    bool pinned = false;
    bool used = false;
  };
  at::Tensor& buffer(const std::string& key, const at::Tensor& source);
  at::Tensor allocate(const at::Tensor& source, bool& pinned);

  std::map<std::string, Buffer> buffers_;
  std::vector<c10::Device> devices_;
  bool can_pin_ = true;
};

}  // namespace trainer::checkpoint

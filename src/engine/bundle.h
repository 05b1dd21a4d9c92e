// Several Stateful parts as one, each under a prefix of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/tensors.h"

namespace trainer::engine {

class Bundle : public Stateful {
 public:
  // Prefixes are distinct; at most one is empty, and takes what no other prefix matches. The parts
  // outlive the bundle.
  explicit Bundle(std::vector<std::pair<std::string, Stateful*>> parts);
  State state() const override;
  void load(const State& state) override;

 private:
  std::vector<std::pair<std::string, Stateful*>> parts_;
};

}  // namespace trainer::engine

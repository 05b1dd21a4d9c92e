// The `groups` setting: which parameter has which settings.
#pragma once

#include <string>
#include <vector>

#include "config/experiment.h"

namespace trainer::optim {

struct GroupSettings {
  double lr_factor = 1;
  double weight_decay = 0;
  bool operator==(const GroupSettings&) const = default;
};

// One entry a name: the settings of the first group whose glob matches it, else the optimiser's.
// Throws Error(config) for a group that gets no parameter, since it would do nothing.
std::vector<GroupSettings> assign_groups(const config::OptimCommon& config,
                                         const std::vector<std::string>& names);

}  // namespace trainer::optim

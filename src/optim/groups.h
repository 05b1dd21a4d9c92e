// The settings `groups` and `layer_decay`: which parameter has which settings.
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

// One entry a name: the settings of the first group whose glob matches it, else the optimiser's;
// the learning rate's factor is then multiplied by layer_decay^(distance of its layer from the
// head). Throws Error(config) for a group that gets no parameter, since it would do nothing.
//
// A layer's depth is counted as in BEiT (Bao et al. 2021) and timm: 0 for embeddings (of tokens,
// positions, patches and the class token) and for a ResNet's stem, i + 1 for block i (from 0; a
// ResNet's are counted through its stages), one more than the last block's for the final norm and
// the head. A row of numbered layers (mlp, lenet) counts each, and the last is the head. An adapter
// is of its layer's depth. `names` are those that learn: frozen blocks after the last of them, and
// frozen blocks of a ResNet, are not counted.
std::vector<GroupSettings> assign_groups(const config::OptimCommon& config,
                                         const std::vector<std::string>& names);

}  // namespace trainer::optim

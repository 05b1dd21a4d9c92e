// Copying saved tensors into live ones, with one complete message where they do not fit.
#pragma once

#include <string>

#include "core/tensors.h"

namespace trainer::optim {

// Copies each tensor of `saved` into the one of `live` that has its name, in place. Where names,
// shapes or dtypes differ nothing is copied and Error(storage) lists the differences; `what` names
// the state in that message ("optimizer state").
void load_tensors(const NamedTensors& saved, const NamedTensors& live, const std::string& what);

}  // namespace trainer::optim

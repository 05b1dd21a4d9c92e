// The rules between fields, and what follows from several of them.
#pragma once

#include "config/experiment.h"
#include "config/type.h"

namespace trainer::config {

// Reports every rule that `experiment` breaks, at the field that most likely has to change. A rule
// over a field that is already a problem is left out.
void check_rules(const Experiment& experiment, Reader& reader);

// Fills in the batch sizes that follow from the others. Sizes that contradict each other are left.
void derive(Experiment& experiment);

}  // namespace trainer::config

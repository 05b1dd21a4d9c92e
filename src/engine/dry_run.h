// --dry-run: everything but the training.
#pragma once

#include "config/experiment.h"
#include "engine/session.h"

namespace trainer::engine {

// Loads one batch, does one step in memory (and one evaluation batch where there is one to do), and
// prints to standard output what the run would be. Writes nothing to disk. Returns the exit code.
int dry_run(const config::Experiment& experiment, Session& session);

}  // namespace trainer::engine

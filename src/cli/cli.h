// The command line. Needs no torch: what does is loaded when a command first needs it.
#pragma once

namespace trainer::cli {

// Parses, runs the command, reports failures on standard error, and returns the exit code. Never
// throws.
int run(int argc, const char* const* argv);

}  // namespace trainer::cli

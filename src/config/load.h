// From a YAML file to a checked Experiment, and from an Experiment to text.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/experiment.h"

namespace trainer::config {

// One mistake, at its place: `exp.yaml:17:5: optim.lrr: unknown key; did you mean "lr"?`.
// Line and column count from 1. For --set the place is the option as typed.
struct Problem {
  std::string place;    // "exp.yaml:17:5" or "--set optim.lrr=1"
  std::string path;     // "optim.lrr"; empty for a problem of the file as a whole
  std::string message;  // what was expected, and the nearest right spelling
  std::string text() const;
};

struct Loaded {
  Experiment experiment;          // meaningful only where there are no problems
  std::vector<Problem> problems;  // in the order of the file; all of them
};

// Reads `file`, its `base:` files, then the overrides (each `key.path=YAML value`), and checks all
// of it: syntax, keys, types, bounds, units and the rules between fields. Derives what depends on
// other fields (batch). Does no I/O but reading these files, and touches no device.
Loaded load(const std::filesystem::path& file, const std::vector<std::string>& overrides);

// The same for text that is already in memory; `name` is the file name used in messages.
Loaded load_text(std::string_view yaml, const std::string& name,
                 const std::vector<std::string>& overrides = {});

// `load`, or throws Error(config) whose message holds every problem, one a line, and a count.
Experiment load_or_throw(const std::filesystem::path& file,
                         const std::vector<std::string>& overrides);

// Every field with its value, as YAML that loads to an equal Experiment.
std::string print(const Experiment& experiment);
// JSON schema (draft 2020-12) of the file: what passes `load`'s own shape checks passes it.
std::string schema();
// The reference page: every field with type, default, bounds and meaning, as Markdown.
std::string reference();

}  // namespace trainer::config

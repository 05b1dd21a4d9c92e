// One tree from a file, the files it inherits from, and the overrides of the command line.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"

namespace trainer::config {

// Whether `base:` may read files.
enum class Files { allowed, refused };

// Both return false, with problems, where there is no tree to go on with.
bool compose_file(const std::filesystem::path& file, Node& root, Problems& problems);
// `base:` is relative to the working directory.
bool compose_text(std::string_view yaml, const std::string& name, Files files, Node& root,
                  Problems& problems);

// Sets what each `key.path=YAML value` names, making maps on the way. A map given as the value
// replaces the one that was there.
void apply_overrides(const std::vector<std::string>& overrides, Node& root, Problems& problems);

// The pipeline behind `load` and `load_text`.
Loaded load_composed(std::string_view yaml, const std::string& name,
                     const std::vector<std::string>& overrides, Files files);

}  // namespace trainer::config

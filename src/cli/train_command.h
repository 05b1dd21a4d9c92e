// `trainer train`, which is also `trainer --config ...`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace trainer::cli {

// `command` is the whole command line as typed. `code` gets the exit code when the command runs.
void add_train_command(CLI::App& app, std::vector<std::string> command, int& code);

}  // namespace trainer::cli

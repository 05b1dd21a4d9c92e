// `trainer export`.
#pragma once

namespace CLI {
class App;
}

namespace trainer::cli {

// `code` gets the exit code when the command runs.
void add_export_command(CLI::App& app, int& code);

}  // namespace trainer::cli

// `trainer predict`.
#pragma once

namespace CLI {
class App;
}

namespace trainer::cli {

// `code` gets the exit code when the command runs.
void add_predict_command(CLI::App& app, int& code);

}  // namespace trainer::cli

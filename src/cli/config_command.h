// `trainer config check|print|schema|reference`.
#pragma once

namespace CLI {
class App;
}

namespace trainer::cli {

void add_config_command(CLI::App& app, int& code);

}  // namespace trainer::cli

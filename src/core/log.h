// The program's log: to standard error, and to a run's trainer.log once it is open. Only log.cpp
// sees spdlog. Thread-safe.
#pragma once

#include <filesystem>
#include <string_view>

namespace trainer::log {

// Adds `file` (appended to) as a second destination, with times and levels. The
// first file starts with what was said before it. Throws Error(storage) where it can't be opened.
void add_file(const std::filesystem::path& file);

// Whether informational lines go to standard error too (they always go to the file).
void set_console(bool on);

void info(std::string_view message);
void warning(std::string_view message);
void error(std::string_view message);
void flush();

}  // namespace trainer::log

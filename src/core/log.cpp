#include "core/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>

#include "core/error.h"

namespace trainer::log {
namespace {

struct Destinations {
  std::shared_ptr<spdlog::sinks::stderr_color_sink_mt> console;
  // Holds the console and the files: unlike a logger's own list it may grow while threads log.
  std::shared_ptr<spdlog::sinks::dist_sink_mt> all;
  // What was said before there was a file, for the first file to start with.
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> early;
  std::shared_ptr<spdlog::logger> logger;
};

Destinations& destinations() {
  static Destinations* all = [] {
    auto* made = new Destinations;  // never destroyed: threads may log while the process ends
    made->console = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(
        std::getenv("NO_COLOR") != nullptr ? spdlog::color_mode::never
                                           : spdlog::color_mode::automatic);
    made->console->set_color(spdlog::level::info, made->console->reset);  // nothing to call out
    // On a terminal a progress line may stand where this one goes: clear it first.
    made->console->set_pattern(isatty(STDERR_FILENO) != 0 ? "\r\x1b[K%^%v%$" : "%^%v%$");
    made->all = std::make_shared<spdlog::sinks::dist_sink_mt>();
    made->all->add_sink(made->console);
    made->early = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(64);
    made->all->add_sink(made->early);
    made->logger = std::make_shared<spdlog::logger>("trainer", made->all);
    made->logger->flush_on(spdlog::level::warn);
    return made;
  }();
  return *all;
}

}  // namespace

void add_file(const std::filesystem::path& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    Destinations& all = destinations();
    if (all.early) {
      all.all->remove_sink(all.early);
      for (const auto& message : all.early->last_raw()) sink->log(message);
      all.early.reset();
    }
    all.all->add_sink(std::move(sink));
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(Exit::storage, std::string("cannot open the log file: ") + failure.what());
  }
}

void set_console(bool on) {
  destinations().console->set_level(on ? spdlog::level::info : spdlog::level::warn);
}

void info(std::string_view message) { destinations().logger->info("{}", message); }

void warning(std::string_view message) { destinations().logger->warn("warning: {}", message); }

void error(std::string_view message) { destinations().logger->error("error: {}", message); }

void flush() { destinations().logger->flush(); }

}  // namespace trainer::log

// The console sink with its clock and its terminal as arguments, for tests. Internal.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "monitor/sinks.h"

namespace trainer::monitor {

struct Terminal {
  std::function<double()> now;                  // seconds, monotonic
  std::function<void(std::string_view)> write;  // never fails: a closed terminal ends no run
  std::function<std::size_t()> width;           // columns, 0 where unknown
};

class Console : public Sink {
 public:
  Console(const ConsoleOptions& options, Terminal terminal);
  ~Console() override;  // shows the last step record

  void write(const Record& record) override;
  void flush() override {}

 private:
  struct Mark {
    double time = 0;
    std::int64_t step = 0;
  };
  void remember(std::int64_t step, double now);
  std::optional<double> seconds_left(double now) const;
  std::string step_line(const Record& record, double now) const;
  std::string evaluation_line(const Record& record) const;
  void show(const std::string& line);
  void show_whole_line(const std::string& line);

  ConsoleOptions options_;
  Terminal terminal_;
  double started_ = 0;
  std::optional<double> shown_at_;  // the last step line
  std::string waiting_;             // a step line that is not shown yet
  bool drawn_ = false;              // a progress line stands on the terminal
  std::deque<Mark> recent_;         // of the last half minute, for the rate
};

}  // namespace trainer::monitor

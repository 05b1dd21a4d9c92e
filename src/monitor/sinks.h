// The sinks of a run folder.
#pragma once

#include <filesystem>
#include <memory>

#include "monitor/record.h"

namespace trainer::monitor {

// Each appends to `file` after cutting it back to the records of steps <= `resumed_step` (a partial
// last line goes too), so that a resumed run has each step once. resumed_step 0: a new file.
std::unique_ptr<Sink> jsonl_sink(const std::filesystem::path& file, std::int64_t resumed_step);
// One column a name; the columns of the first step record and of every later new name. Where a new
// name turns up, the file is rewritten with the wider header (atomically).
std::unique_ptr<Sink> csv_sink(const std::filesystem::path& file, std::int64_t resumed_step);
// Writes `folder`/events.out.tfevents.*; a new file at each start, the earlier files cut back.
std::unique_ptr<Sink> tensorboard_sink(const std::filesystem::path& folder,
                                       std::int64_t resumed_step);

// What the console needs to know beside the records.
struct ConsoleOptions {
  bool progress = false;  // one line redrawn in place, for terminals
  bool quiet = false;
  bool colour = false;
  std::int64_t total_steps = 0;  // 0 where the length is a time
  double total_seconds = 0;      // where the length is a time
};
// To standard error: a progress line with ETA redrawn at most ten times a second, or plain lines
// (at most one a second and each evaluation).
std::unique_ptr<Sink> console_sink(const ConsoleOptions& options);

}  // namespace trainer::monitor

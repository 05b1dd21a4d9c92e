#include "monitor/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "core/text.h"
#include "monitor/format.h"

namespace trainer::monitor {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kLineSeconds = 1.0;
constexpr double kRateSeconds = 30.0;
constexpr double kMarkSeconds = 0.5;
constexpr const char* kClearLine = "\r\x1b[K";
constexpr const char* kBold = "\x1b[1m";
constexpr const char* kPlain = "\x1b[0m";

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void write_to_standard_error(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::size_t terminal_width() {
  struct winsize size {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string formatted(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

// "  <label><number><unit>" where the record has the field.
std::string part(const Record& record, const char* name, const char* label, const char* format,
                 const char* unit = "") {
  const Value* value = record.find(name);
  if (value == nullptr) return {};
  return std::string("  ") + label + formatted(format, as_double(*value)) + unit;
}

std::int64_t step_of(const Record& record) {
  const Value* step = record.find("step");
  return step == nullptr ? 0 : static_cast<std::int64_t>(as_double(*step));
}

}  // namespace

Console::Console(const ConsoleOptions& options, Terminal terminal)
    : options_(options), terminal_(std::move(terminal)), started_(terminal_.now()) {}

Console::~Console() {
  if (!waiting_.empty()) show(waiting_);
  if (drawn_) terminal_.write("\n");
}

void Console::write(const Record& record) {
  if (options_.quiet) return;
  if (record.kind == Record::Kind::evaluation) {
    show_whole_line(evaluation_line(record));
    return;
  }
  const double now = terminal_.now();
  const std::int64_t step = step_of(record);
  remember(step, now);
  const double interval = options_.progress ? kRedrawSeconds : kLineSeconds;
  const bool is_last = options_.total_steps > 0 && step >= options_.total_steps;
  waiting_ = step_line(record, now);
  if (shown_at_ && now - *shown_at_ < interval && !is_last) return;
  shown_at_ = now;
  show(std::exchange(waiting_, {}));
}

void Console::remember(std::int64_t step, double now) {
  if (recent_.empty() || now - recent_.back().time >= kMarkSeconds) recent_.push_back({now, step});
  while (recent_.size() > 2 && now - recent_.front().time > kRateSeconds) recent_.pop_front();
}

std::optional<double> Console::seconds_left(double now) const {
  if (options_.total_seconds > 0) return std::max(0.0, options_.total_seconds - (now - started_));
  if (options_.total_steps <= 0 || recent_.size() < 2) return std::nullopt;
  const Mark& first = recent_.front();
  const Mark& last = recent_.back();
  if (last.step <= first.step) return std::nullopt;
  const double seconds_a_step =
      (last.time - first.time) / static_cast<double>(last.step - first.step);
  const auto steps_left = static_cast<double>(options_.total_steps - last.step);
  return std::max(0.0, steps_left * seconds_a_step - (now - last.time));
}

std::string Console::step_line(const Record& record, double now) const {
  std::string line = "step " + std::to_string(step_of(record));
  if (options_.total_steps > 0) line += "/" + std::to_string(options_.total_steps);
  line += part(record, "epoch", "epoch ", "%.0f");
  line += part(record, "loss", "loss ", "%.4f");
  line += part(record, "lr", "lr ", "%.3g");
  if (record.find("tokens_per_s") != nullptr)
    line += part(record, "tokens_per_s", "", "%.0f", " tokens/s");
  else
    line += part(record, "samples_per_s", "", "%.0f", " samples/s");
  if (const Value* memory = record.find("mem_peak"))
    line += "  mem " + human_bytes(as_double(*memory));
  if (const std::optional<double> left = seconds_left(now)) line += "  ETA " + human_seconds(*left);
  return line;
}

std::string Console::evaluation_line(const Record& record) const {
  std::string line = "eval at step " + std::to_string(step_of(record)) + ":";
  for (const auto& [name, value] : record.fields)
    if (name != "step") line += "  " + name + " " + formatted("%.5g", as_double(value));
  return options_.colour ? kBold + line + kPlain : line;
}

void Console::show(const std::string& line) {
  if (!options_.progress) {
    terminal_.write(line + "\n");
    return;
  }
  // A line that wraps could not be redrawn in place. The cursor goes back to its beginning, so that
  // a message of the log does not start behind it.
  const std::size_t width = terminal_.width();
  const bool too_long = width > 0 && line.size() >= width;
  terminal_.write(kClearLine + (too_long ? line.substr(0, width - 1) : line) + "\r");
  drawn_ = true;
}

void Console::show_whole_line(const std::string& line) {
  terminal_.write((options_.progress ? kClearLine + line : line) + "\n");
  drawn_ = false;
}

std::unique_ptr<Sink> console_sink(const ConsoleOptions& options) {
  return std::make_unique<Console>(
      options, Terminal{monotonic_seconds, write_to_standard_error, terminal_width});
}

}  // namespace trainer::monitor

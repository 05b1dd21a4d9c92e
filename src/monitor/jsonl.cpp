#include <nlohmann/json.hpp>

#include "monitor/files.h"
#include "monitor/format.h"
#include "monitor/sinks.h"

namespace trainer::monitor {
namespace {

// After a crash of the machine a line may hold anything: only a whole record is kept.
bool is_record_until(std::string_view line, std::int64_t step) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return false;
  const auto found = record.find("step");
  return found != record.end() && found->is_number_integer() && found->get<std::int64_t>() <= step;
}

std::string json_line(const Record& record) {
  std::string line = "{";
  for (const auto& [name, value] : record.fields) {
    if (line.size() > 1) line += ", ";
    line += nlohmann::json(name).dump() + ": " + json_number(value);
  }
  return line + "}\n";
}

class JsonlSink : public Sink {
 public:
  JsonlSink(const std::filesystem::path& path, AppendFile::Mode mode) : file_(path, mode) {}
  void write(const Record& record) override { file_.append(json_line(record)); }
  void flush() override {}  // each record goes to the kernel at once

 private:
  AppendFile file_;
};

}  // namespace

std::unique_ptr<Sink> jsonl_sink(const std::filesystem::path& file, std::int64_t resumed_step) {
  if (resumed_step == 0) return std::make_unique<JsonlSink>(file, AppendFile::Mode::truncate);
  keep_lines(file, [&](std::string_view line) { return is_record_until(line, resumed_step); });
  return std::make_unique<JsonlSink>(file, AppendFile::Mode::append);
}

}  // namespace trainer::monitor

#include <nlohmann/json.hpp>

#include "monitor/format.h"
#include "monitor/json_lines.h"
#include "monitor/sinks.h"

namespace trainer::monitor {
namespace {

std::string json_object(const Record& record) {
  std::string line = "{";
  for (const auto& [name, value] : record.fields) {
    if (line.size() > 1) line += ", ";
    line += nlohmann::json(name).dump() + ": " + json_number(value);
  }
  return line + "}";
}

class JsonlSink : public Sink {
 public:
  JsonlSink(const std::filesystem::path& path, std::int64_t resumed_step)
      : lines_(path, resumed_step) {}
  void write(const Record& record) override { lines_.append(json_object(record)); }
  void flush() override {}  // each record goes to the kernel at once

 private:
  JsonLines lines_;
};

}  // namespace

std::unique_ptr<Sink> jsonl_sink(const std::filesystem::path& file, std::int64_t resumed_step) {
  return std::make_unique<JsonlSink>(file, resumed_step);
}

}  // namespace trainer::monitor

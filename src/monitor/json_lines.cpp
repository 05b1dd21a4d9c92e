#include "monitor/json_lines.h"

#include <string>
#include <system_error>
#include <utility>

namespace trainer::monitor {
namespace {

// After a crash of the machine a line may hold anything: only a whole object is kept.
bool belongs_until(const nlohmann::json& object, std::int64_t step) {
  if (!object.is_object()) return false;
  const auto found = object.find("step");
  return found != object.end() && found->is_number_integer() && found->get<std::int64_t>() <= step;
}

}  // namespace

JsonLines::JsonLines(std::filesystem::path file, std::int64_t resumed_step, bool late,
                     const std::function<void(const nlohmann::json&)>& kept)
    : path_(std::move(file)) {
  if (resumed_step == 0) {
    std::error_code ignored;
    if (late)
      std::filesystem::remove(path_, ignored);
    else
      file_ = std::make_unique<AppendFile>(path_, AppendFile::Mode::truncate);
    return;
  }
  if (late && !std::filesystem::exists(path_)) return;
  keep_lines(path_, [&](std::string_view line) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!belongs_until(object, resumed_step)) return false;
    if (kept) kept(object);
    return true;
  });
  file_ = std::make_unique<AppendFile>(path_, AppendFile::Mode::append);
}

void JsonLines::append(std::string_view line) {
  if (!file_) file_ = std::make_unique<AppendFile>(path_, AppendFile::Mode::append);
  file_->append(std::string(line) + "\n");
}

}  // namespace trainer::monitor

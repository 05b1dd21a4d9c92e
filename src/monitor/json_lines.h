// A file of JSON objects, one a line, each with the "step" it belongs to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "monitor/files.h"

namespace trainer::monitor {

class JsonLines {
 public:
  // Appends to `file` after cutting it back to the objects of steps <= `resumed_step` (a partial
  // last line goes too), each of which `kept` gets. resumed_step 0: a new file, made at the first
  // line where `late` is set. Throws Error(storage).
  JsonLines(std::filesystem::path file, std::int64_t resumed_step, bool late = false,
            const std::function<void(const nlohmann::json&)>& kept = {});

  // `line` is one object, without its newline.
  void append(std::string_view line);

 private:
  std::filesystem::path path_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace trainer::monitor

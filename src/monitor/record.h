// Records of a run and where they go. No torch here; the narrow interface that any room may use.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace trainer::monitor {

using Value = std::variant<std::int64_t, double>;

// One flat record: names are those of the step record of docs/reference/run-folder.md and stand in
// the order in which they are written. What does not apply is absent.
struct Record {
  enum class Kind { step, evaluation };
  Kind kind = Kind::step;
  std::vector<std::pair<std::string, Value>> fields;

  void add(std::string name, std::int64_t value) { fields.emplace_back(std::move(name), value); }
  void add(std::string name, double value) { fields.emplace_back(std::move(name), value); }
  const Value* find(std::string_view name) const;
};

// Takes records in step order, from one thread.
class Sink {
 public:
  virtual ~Sink() = default;
  // Throws Error(storage) where the record cannot be written.
  virtual void write(const Record& record) = 0;
  // What was written is in the kernel's hands when this returns.
  virtual void flush() = 0;
};

}  // namespace trainer::monitor

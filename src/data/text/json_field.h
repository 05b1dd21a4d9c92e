// A value of a JSON file that knows where it stands, for messages.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace trainer::data {

class JsonField {
 public:
  JsonField(const nlohmann::json& value, std::string file, std::string name)
      : value_(&value), file_(std::move(file)), name_(std::move(name)) {}

  const nlohmann::json& value() const { return *value_; }
  // "model.merges[3]"
  const std::string& name() const { return name_; }
  bool is_null() const { return value_->is_null(); }

  // A member; null where it is missing, or throws where it is `required`.
  JsonField at(const std::string& key, bool required = false) const;
  JsonField at(std::size_t index) const;
  std::size_t size() const { return value_->size(); }
  bool has(const std::string& key) const { return value_->is_object() && value_->contains(key); }

  // Each throws where the value is of another type; those with `missing` take null for it.
  std::string text() const;
  std::string text(const std::string& missing) const { return is_null() ? missing : text(); }
  bool flag(bool missing) const;
  std::int64_t integer() const;
  const JsonField& array() const;
  const JsonField& object() const;

  // Throws Error(data): "FILE: NAME: what".
  [[noreturn]] void fail(const std::string& what) const;

 private:
  const nlohmann::json* value_;
  std::string file_, name_;
};

// A whole file. Throws Error(data) naming it where it cannot be read or is no JSON.
nlohmann::json parse_json_file(const std::string& file, std::string& content);

}  // namespace trainer::data

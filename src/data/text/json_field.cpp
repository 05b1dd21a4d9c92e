#include "data/text/json_field.h"

#include <cstdint>
#include <vector>

#include "core/error.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

const nlohmann::json kNull;

}  // namespace

JsonField JsonField::at(const std::string& key, bool required) const {
  object();
  const std::string name = name_.empty() ? key : name_ + "." + key;
  const auto found = value_->find(key);
  JsonField field(found == value_->end() ? kNull : *found, file_, name);
  if (required && field.is_null()) field.fail("is missing");
  return field;
}

JsonField JsonField::at(std::size_t index) const {
  return {array().value()[index], file_, name_ + "[" + std::to_string(index) + "]"};
}

std::string JsonField::text() const {
  if (!value_->is_string()) fail("must be a string");
  return value_->get<std::string>();
}

bool JsonField::flag(bool missing) const {
  if (is_null()) return missing;
  if (!value_->is_boolean()) fail("must be true or false");
  return value_->get<bool>();
}

std::int64_t JsonField::integer() const {
  if (!value_->is_number_integer()) fail("must be a whole number");
  return value_->get<std::int64_t>();
}

const JsonField& JsonField::array() const {
  if (!value_->is_array()) fail("must be a list");
  return *this;
}

const JsonField& JsonField::object() const {
  if (!value_->is_object()) fail("must be an object");
  return *this;
}

void JsonField::fail(const std::string& what) const {
  throw Error(Exit::data, printable(file_) + ": " + (name_.empty() ? "" : name_ + ": ") + what);
}

nlohmann::json parse_json_file(const std::string& file, std::string& content) {
  std::vector<std::uint8_t> bytes;
  try {
    read_file(file, bytes);
  } catch (const Error& error) {
    throw Error(Exit::data, printable(file) + ": " + error.what());
  }
  content.assign(bytes.begin(), bytes.end());
  try {
    return nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception& error) {
    throw Error(Exit::data, printable(file) + ": no valid JSON: " + error.what());
  }
}

}  // namespace trainer::data

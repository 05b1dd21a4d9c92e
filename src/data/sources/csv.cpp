#include "data/sources/csv.h"

#include <algorithm>

#include "core/error.h"

namespace trainer::data {

CsvReader::CsvReader(std::string_view text) : rest_(text) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
}

bool CsvReader::at_line_end() const { return rest_.starts_with('\n') || rest_.starts_with("\r\n"); }

void CsvReader::skip_line_end() {
  rest_.remove_prefix(rest_[0] == '\r' ? 2 : 1);
  ++next_line_;
}

bool CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (at_line_end()) skip_line_end();
  if (rest_.empty()) return false;
  line_ = next_line_;
  for (;;) {
    fields.push_back(rest_.starts_with('"') ? quoted_field() : field());
    if (!rest_.starts_with(',')) break;
    rest_.remove_prefix(1);
  }
  if (!rest_.empty()) skip_line_end();
  return true;
}

std::string CsvReader::field() {
  std::string_view text = rest_.substr(0, rest_.find_first_of(",\n"));
  rest_.remove_prefix(text.size());
  if (text.ends_with('\r') && !rest_.starts_with(',')) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

std::string CsvReader::quoted_field() {
  std::string text;
  rest_.remove_prefix(1);
  for (;;) {
    const auto quote = rest_.find('"');
    if (quote == std::string_view::npos)
      throw Error(Exit::data, "a field's opening quote has no closing one");
    text += rest_.substr(0, quote);
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    text += '"';
    rest_.remove_prefix(1);
  }
  next_line_ += std::count(text.begin(), text.end(), '\n');
  if (rest_ == "\r") rest_ = {};
  if (!rest_.empty() && !rest_.starts_with(',') && !at_line_end())
    throw Error(Exit::data, "text follows a field's closing quote");
  return text;
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace trainer::data

// Comma-separated values (RFC 4180 quoting, one-line fields, lines end in \n).
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "monitor/files.h"
#include "monitor/format.h"
#include "monitor/sinks.h"

namespace trainer::monitor {
namespace {

std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> fields(1);
  bool in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && in_quotes && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += c;
      ++i;
    } else if (c == '"') {
      in_quotes = !in_quotes;
    } else if (c == ',' && !in_quotes) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

std::string header_line(const std::vector<std::string>& columns) {
  std::string line;
  for (const std::string& column : columns) line += (line.empty() ? "" : ",") + quoted(column);
  return line + '\n';
}

std::optional<std::int64_t> parse_step(const std::string& field) {
  std::int64_t step = 0;
  const char* end = field.data() + field.size();
  const auto [stop, error] = std::from_chars(field.data(), end, step);
  if (error != std::errc() || stop != end) return std::nullopt;
  return step;
}

// The columns of `file`, after cutting it back to the rows of steps <= `step`; empty where the file
// is absent or has no whole header.
std::vector<std::string> cut_back(const std::filesystem::path& file, std::int64_t step) {
  std::vector<std::string> columns;
  if (!std::filesystem::exists(file)) return columns;
  for_each_line(file, [&](std::string_view line) {
    if (line.ends_with('\n')) columns = split(line.substr(0, line.size() - 1));
    return false;
  });
  const auto found = std::find(columns.begin(), columns.end(), "step");
  if (found == columns.end()) return {};
  const auto column = static_cast<std::size_t>(found - columns.begin());
  const std::string header = header_line(columns);
  keep_lines(file, [&](std::string_view line) {
    const std::vector<std::string> fields = split(line);
    if (fields == columns) return true;
    if (fields.size() != columns.size()) return false;
    const std::optional<std::int64_t> row_step = parse_step(fields[column]);
    return row_step && *row_step <= step;
  });
  return columns;
}

class CsvSink : public Sink {
 public:
  // With `columns` the file is gone on with, else it begins anew.
  CsvSink(const std::filesystem::path& path, std::vector<std::string> columns)
      : columns_(std::move(columns)) {
    open(path, columns_.empty() ? AppendFile::Mode::truncate : AppendFile::Mode::append);
  }

  void write(const Record& record) override {
    add_columns(record);
    std::string row;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i > 0) row += ',';
      if (const Value* value = record.find(columns_[i])) row += number_text(*value);
    }
    file_->append(row + '\n');
  }
  void flush() override {}  // each record goes to the kernel at once

 private:
  void open(const std::filesystem::path& path, AppendFile::Mode mode) {
    file_ = std::make_unique<AppendFile>(path, mode);
  }

  // New columns stand last, so that the rows there are only get longer.
  void add_columns(const Record& record) {
    const std::size_t before = columns_.size();
    for (const auto& [name, value] : record.fields)
      if (std::find(columns_.begin(), columns_.end(), name) == columns_.end())
        columns_.push_back(name);
    if (columns_.size() == before) return;
    if (before == 0) {
      file_->append(header_line(columns_));
      return;
    }
    const std::filesystem::path path = file_->path();
    const std::string more(columns_.size() - before, ',');
    replace_file(path, [&](AppendFile& wider) {
      std::string text = header_line(columns_);
      bool is_header = true;
      for_each_line(path, [&](std::string_view line) {
        if (!std::exchange(is_header, false))
          text.append(line.substr(0, line.size() - 1)).append(more).append("\n");
        return true;
      });
      wider.append(text);
    });
    open(path, AppendFile::Mode::append);
  }

  std::vector<std::string> columns_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace

std::unique_ptr<Sink> csv_sink(const std::filesystem::path& file, std::int64_t resumed_step) {
  std::vector<std::string> columns;
  if (resumed_step > 0) columns = cut_back(file, resumed_step);
  return std::make_unique<CsvSink>(file, std::move(columns));
}

}  // namespace trainer::monitor

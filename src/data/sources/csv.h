// Comma-separated values, RFC 4180: fields in double quotes may hold commas, line ends and doubled
// quotes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::data {

// Reads records one by one. Lines end with LF or CR LF; a byte order mark and empty lines are
// skipped. A quote inside a field that does not start with one is an ordinary character.
class CsvReader {
 public:
  explicit CsvReader(std::string_view text);

  // The next record's fields; false at the end. Throws Error(data) with the reason alone where a
  // quoted field does not end as it must.
  bool next(std::vector<std::string>& fields);
  // Where the last record starts; the first line is 1.
  std::int64_t line() const { return line_; }

 private:
  bool at_line_end() const;
  void skip_line_end();
  std::string field();
  std::string quoted_field();

  std::string_view rest_;
  std::int64_t line_ = 0;
  std::int64_t next_line_ = 1;
};

// `text` as a field: in quotes where it needs them.
std::string csv_field(std::string_view text);

}  // namespace trainer::data

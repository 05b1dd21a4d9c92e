// A list of image files with their labels, CSV or JSON lines.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "data/sources/csv.h"
#include "data/sources/files.h"
#include "data/sources/labels.h"
#include "data/sources/sources.h"
#include "data/sources/text_list.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// The list as it stands in the file.
struct Rows {
  TextList paths;
  LabelTexts labels;
  std::vector<std::int64_t> label_lines;  // where each text of `labels` first stands
  std::vector<float> weights;
  std::int64_t first_line = 0;

  void add(std::string_view path, std::string_view label, float weight, std::int64_t line) {
    if (paths.empty()) first_line = line;
    paths.add(path);
    const auto text = static_cast<std::size_t>(labels.add(label));
    if (text == label_lines.size()) label_lines.push_back(line);
    weights.push_back(weight);
  }
};

// All reasons are given without the file, which `read_rows` knows, and the line, which its reader
// knows.
[[noreturn]] void fail(const std::string& reason) { throw Error(Exit::data, reason); }

void require_path(std::string_view path) {
  if (path.empty()) fail("the path is empty");
  if (path.find('\0') != std::string_view::npos) fail("the path holds a zero byte");
}

void require_label(std::string_view label) {
  if (label.empty()) fail("the label is empty");
}

float parse_weight(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  const bool whole = result.ec == std::errc() && result.ptr == end;
  return checked_weight(whole ? value : std::nan(""), "\"" + text + "\"");
}

// Which field of a record holds what.
class Columns {
 public:
  explicit Columns(const std::vector<std::string>& header) : count_(header.size()) {
    path_ = require(header, "path");
    label_ = require(header, "label");
    weight_ = find(header, "weight");
  }

  void add(const std::vector<std::string>& fields, std::int64_t line, Rows& rows) const {
    if (fields.size() != count_) {
      fail("there are " + std::to_string(fields.size()) + " fields, but the header has " +
           std::to_string(count_));
    }
    require_path(fields[path_]);
    require_label(fields[label_]);
    rows.add(fields[path_], fields[label_], weight_ ? parse_weight(fields[*weight_]) : 1.0F, line);
  }

 private:
  static std::optional<std::size_t> find(const std::vector<std::string>& header,
                                         const std::string& name) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) return std::nullopt;
    if (std::find(found + 1, header.end(), name) != header.end())
      fail("the header has two columns \"" + name + "\"");
    return static_cast<std::size_t>(found - header.begin());
  }

  static std::size_t require(const std::vector<std::string>& header, const std::string& name) {
    if (const auto found = find(header, name)) return *found;
    std::string names;
    for (const std::string& each : header) names += (names.empty() ? "" : ", ") + printable(each);
    fail("the header has no column \"" + name + "\", its columns are: " + names);
  }

  std::size_t count_;
  std::size_t path_ = 0;
  std::size_t label_ = 0;
  std::optional<std::size_t> weight_;
};

Rows read_csv(std::string_view text) {
  Rows rows;
  CsvReader reader(text);
  std::vector<std::string> fields;
  try {
    if (!reader.next(fields)) return rows;
    const Columns columns(fields);
    while (reader.next(fields)) columns.add(fields, reader.line(), rows);
  } catch (const Error& error) {
    throw Error(error.code(), "line " + std::to_string(reader.line()) + ": " + error.what());
  }
  return rows;
}

std::string label_in(const nlohmann::json& row) {
  const auto label = row.find("label");
  if (label == row.end()) fail("there is no key \"label\"");
  if (label->is_number_integer()) return label->dump();
  if (!label->is_string()) fail("\"label\" is neither a name nor an integer");
  return label->get<std::string>();
}

void add_json(std::string_view line, std::int64_t number, Rows& rows) {
  const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) fail("this is no JSON object");
  const auto path = row.find("path");
  if (path == row.end()) fail("there is no key \"path\"");
  if (!path->is_string()) fail("\"path\" is no text");
  const auto& file = path->get_ref<const std::string&>();
  const std::string label = label_in(row);
  require_path(file);
  require_label(label);
  float weight = 1;
  if (const auto found = row.find("weight"); found != row.end())
    weight =
        checked_weight(found->is_number() ? found->get<double>() : std::nan(""), found->dump());
  rows.add(file, label, weight, number);
}

Rows read_json_lines(std::string_view text) {
  Rows rows;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      add_json(line, number, rows);
    } catch (const Error& error) {
      throw Error(error.code(), "line " + std::to_string(number) + ": " + error.what());
    }
  }
  return rows;
}

Rows read_rows(const fs::path& path) {
  const std::string extension = path.extension().string();
  const bool json = extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
  if (!json && extension != ".csv")
    fail(printable(path) + ": a manifest's name ends with .csv, .jsonl, .ndjson or .json");
  const MappedFile file(path);
  try {
    Rows rows = json ? read_json_lines(as_text(file.bytes())) : read_csv(as_text(file.bytes()));
    if (rows.paths.empty()) fail("there are no samples in it");
    return rows;
  } catch (const Error& error) {
    throw Error(error.code(), printable(path) + ": " + error.what());
  }
}

class ManifestSource : public FileSource {
 public:
  explicit ManifestSource(const config::Manifest& config)
      : path_(config.path),
        root_(config.root ? fs::path(*config.root) : fs::path(config.path).parent_path()) {
    const std::string name = printable(path_);
    require_distinct(config.classes, name);
    Rows rows = read_rows(path_);
    const auto place = [&](std::size_t text) {
      return name + ": line " + std::to_string(rows.label_lines[text]);
    };
    classes_ = resolve(rows.labels, config.classes, Integers::names_first, place);
    if (!config.classes.empty()) require_samples(classes_, name);
    paths_ = std::move(rows.paths);
    if (std::any_of(rows.weights.begin(), rows.weights.end(), [](float w) { return w != 1.0F; }))
      weights_ = std::move(rows.weights);
    require_first_file(rows.first_line);
    fingerprint_ = hash_rows();
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(paths_.size()); }
  const std::vector<std::string>& class_names() const override { return classes_.names; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(classes_.names.size()); }
  bool encoded() const override { return true; }
  int channels() const override { return 3; }

  Raw fetch(std::int64_t index, std::vector<std::uint8_t>& buffer) const override {
    return fetch_file(file(index), classes_.names[static_cast<std::size_t>(label(index))], buffer);
  }

  std::int64_t label(std::int64_t index) const override {
    return classes_.labels[static_cast<std::size_t>(index)];
  }
  float weight(std::int64_t index) const override {
    return weighted() ? weights_[static_cast<std::size_t>(index)] : 1.0F;
  }
  bool weighted() const override { return !weights_.empty(); }
  fs::path file(std::int64_t index) const override {
    return root_ / paths_[static_cast<std::size_t>(index)];
  }
  std::string sample_name(std::int64_t index) const override { return printable(file(index)); }

  std::string describe() const override {
    return "manifest " + printable(path_) + ": " + std::to_string(size()) + " images, " +
           std::to_string(classes()) + " classes" + (weighted() ? ", weighted" : "");
  }

  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // A wrong root shows at once, not when the first batch is made.
  void require_first_file(std::int64_t line) const {
    const fs::path first = file(0);
    if (::access(first.c_str(), F_OK) == 0) return;
    fail(printable(path_) + ": line " + std::to_string(line) + ": " + printable(first) + ": " +
         std::generic_category().message(errno) + "; paths are relative to " +
         printable(root_.empty() ? fs::path(".") : root_) + ", which `root` sets");
  }

  std::uint64_t hash_rows() const {
    std::uint64_t hash = 0;
    for (const std::string& name : classes_.names) hash = hash_text(name, hash);
    for (std::size_t i = 0; i < paths_.size(); ++i) hash = hash_text(paths_[i], hash);
    const auto hash_values = [&hash](const auto& values) {
      hash = hash_text(
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]}, hash);
    };
    hash_values(classes_.labels);
    hash_values(weights_);
    return hash;
  }

  fs::path path_;
  fs::path root_;
  TextList paths_;
  Classes classes_;
  std::vector<float> weights_;  // empty where all are 1
  std::uint64_t fingerprint_ = 0;
};

}  // namespace

std::unique_ptr<Source> make_manifest(const config::Manifest& config) {
  return std::make_unique<ManifestSource>(config);
}

}  // namespace trainer::data

// A YAML document as a tree that remembers where each part was written. Between yaml-cpp and the
// typed experiment; internal to this room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace trainer::config {

// Line and column count from 1, columns in characters. Line 0 is a source without lines (--set).
struct Place {
  int source = 0;  // index given by Problems::add_source
  int line = 0;
  int column = 0;
};

struct Entry;

struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;            // of a scalar
  bool quoted = false;         // text whatever it looks like
  bool expanded = false;       // held ${...}: takes the type that its field wants
  bool reported = false;       // already a problem: no second message about its value
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map, in the order of the file, keys unique
  Place place;

  static Node plain(std::string text);
  // Quoted when written only where a plain scalar would read as something else.
  static Node string(std::string text);
  static Node list(std::vector<Node> items);
  static Node map();
  static Node null();

  void add(std::string key, Node value);
  const Entry* find(std::string_view key) const;
  Entry* find(std::string_view key);
};

struct Entry {
  std::string key;
  Place key_place;
  Node value;
};

// Every mistake found so far, with the names of the sources they are in.
class Problems {
 public:
  int add_source(std::string name);
  const std::string& source_name(int source) const;
  void add(const Place& place, std::string path, std::string message);
  std::size_t count() const { return found_.size(); }
  // Whether a problem is at `path`, above it or below it.
  bool touch(std::string_view path) const;
  // In the order of the sources, then of lines and columns.
  std::vector<Problem> in_order() const;

 private:
  struct Found {
    Place place;
    std::string path;
    std::string message;
  };
  std::vector<std::string> sources_;
  std::vector<Found> found_;
};

// Parses one document. Returns false, with one problem, where the text is no YAML or beyond the
// limits (1 MiB, 64 levels, 100,000 nodes); other mistakes (duplicate keys, a second document,
// tags) are reported and the rest is kept. Source names with lines give places; `lines` false is
// --set.
bool parse_yaml(std::string_view text, int source, bool lines, Node& root, Problems& problems);

// Block style with maps down the page and lists of maps one item a line; ends with a newline.
std::string write_yaml(const Node& map);
// On one line.
std::string write_flow(const Node& node);

// "model.kind" from "model" and "kind".
std::string join_path(std::string_view parent, std::string_view key);

// A user's text for a message: in double quotes, shortened, control characters escaped.
std::string quote(std::string_view text);
// What a node is, for "found ...": `"abc"`, `nothing (null)`, `a list`, `a map`.
std::string describe(const Node& node);
// " (did you mean ...?)"-style ending: `; did you mean "lr"?`, else `; one of a, b, c`.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace trainer::config

#include "config/node.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <tuple>
#include <utility>

#include "config/scalar.h"
#include "core/text.h"

namespace trainer::config {
namespace {

// Whether a plain scalar reads back as this text, in block and in flow style.
bool safe_plain(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto other = [](char c) {
    return (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '/' || c == '-';
  };
  if (text.empty() || !(letter(text[0]) || text[0] == '/' || text.starts_with("./"))) return false;
  if (!std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || other(c); }))
    return false;
  // Words that YAML 1.1 readers take for booleans are quoted for their sake.
  static const std::set<std::string, std::less<>> kBooleans{"y",   "Y",   "n",   "N",  "yes", "Yes",
                                                            "YES", "no",  "No",  "NO", "on",  "On",
                                                            "ON",  "off", "Off", "OFF"};
  return classify(text) == ScalarKind::text && !kBooleans.contains(text);
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\x%02x", static_cast<unsigned>(byte));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string write_scalar(const Node& node) {
  if (node.kind == Node::Kind::null) return "null";
  return node.quoted ? double_quoted(node.text) : node.text;
}

bool flow_only(const Node& node) {
  if (node.kind == Node::Kind::map) return node.entries.empty();
  if (node.kind != Node::Kind::list) return true;
  return std::all_of(node.items.begin(), node.items.end(), [](const Node& item) {
    return item.kind == Node::Kind::scalar || item.kind == Node::Kind::null;
  });
}

void write_block(const Node& map, std::size_t indent, std::string& out) {
  for (const Entry& entry : map.entries) {
    out.append(indent, ' ').append(entry.key).append(":");
    if (flow_only(entry.value)) {
      out.append(" ").append(write_flow(entry.value)).append("\n");
    } else if (entry.value.kind == Node::Kind::map) {
      out.append("\n");
      write_block(entry.value, indent + 2, out);
    } else {
      out.append("\n");
      for (const Node& item : entry.value.items)
        out.append(indent + 2, ' ').append("- ").append(write_flow(item)).append("\n");
    }
  }
}

bool below_or_equal(std::string_view path, std::string_view parent) {
  return path.starts_with(parent) &&
         (path.size() == parent.size() || parent.empty() || path[parent.size()] == '.');
}

}  // namespace

Node Node::plain(std::string text) {
  Node node;
  node.kind = Kind::scalar;
  node.text = std::move(text);
  return node;
}

Node Node::string(std::string text) {
  Node node = plain(std::move(text));
  node.quoted = !safe_plain(node.text);
  return node;
}

Node Node::list(std::vector<Node> items) {
  Node node;
  node.kind = Kind::list;
  node.items = std::move(items);
  return node;
}

Node Node::map() {
  Node node;
  node.kind = Kind::map;
  return node;
}

Node Node::null() { return {}; }

void Node::add(std::string key, Node value) {
  entries.push_back(Entry{std::move(key), value.place, std::move(value)});
}

const Entry* Node::find(std::string_view key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

Entry* Node::find(std::string_view key) {
  for (Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

int Problems::add_source(std::string name) {
  sources_.push_back(std::move(name));
  return static_cast<int>(sources_.size()) - 1;
}

const std::string& Problems::source_name(int source) const {
  return sources_.at(static_cast<std::size_t>(source));
}

void Problems::add(const Place& place, std::string path, std::string message) {
  found_.push_back(Found{place, std::move(path), std::move(message)});
}

bool Problems::touch(std::string_view path) const {
  return std::any_of(found_.begin(), found_.end(), [&](const Found& found) {
    return !found.path.empty() &&
           (below_or_equal(found.path, path) || below_or_equal(path, found.path));
  });
}

std::vector<Problem> Problems::in_order() const {
  std::vector<Found> found = found_;
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.place.source, a.place.line, a.place.column) <
           std::tie(b.place.source, b.place.line, b.place.column);
  });
  std::vector<Problem> problems;
  for (Found& one : found) {
    std::string place = source_name(one.place.source);
    if (one.place.line > 0)
      place.append(1, ':')
          .append(std::to_string(one.place.line))
          .append(1, ':')
          .append(std::to_string(one.place.column));
    problems.push_back(Problem{std::move(place), std::move(one.path), std::move(one.message)});
  }
  return problems;
}

std::string write_yaml(const Node& map) {
  std::string out;
  write_block(map, 0, out);
  return out;
}

std::string write_flow(const Node& node) {
  std::string out;
  if (node.kind == Node::Kind::list) {
    for (const Node& item : node.items) out += (out.empty() ? "" : ", ") + write_flow(item);
    return "[" + out + "]";
  }
  if (node.kind == Node::Kind::map) {
    for (const Entry& entry : node.entries)
      out += (out.empty() ? "" : ", ") + entry.key + ": " + write_flow(entry.value);
    return "{" + out + "}";
  }
  return write_scalar(node);
}

std::string join_path(std::string_view parent, std::string_view key) {
  std::string path(parent);
  if (!path.empty()) path += '.';
  return path.append(key);
}

std::string quote(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  if (text.size() <= kLongest) return double_quoted(text);
  std::size_t cut = kLongest;
  // Not inside a UTF-8 sequence.
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;
  return double_quoted(std::string(text.substr(0, cut)) + "...");
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null:
      return "nothing (null)";
    case Node::Kind::list:
      return "a list";
    case Node::Kind::map:
      return "a map";
    case Node::Kind::scalar:
      break;
  }
  const bool looks_typed = !node.text.empty() && classify(node.text) != ScalarKind::text;
  if (node.quoted && !node.expanded && looks_typed) return "the text " + quote(node.text);
  return looks_typed && node.text.size() < 60 ? node.text : quote(node.text);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  std::string near = nearest(word, candidates);
  // Part of a name, such as accuracy for val/accuracy.
  for (const std::string& candidate : candidates)
    if (near.empty() && word.size() >= 3 && candidate.find(word) != std::string::npos)
      near = candidate;
  if (!near.empty()) return "; did you mean \"" + near + "\"?";
  std::string all;
  for (const std::string& candidate : candidates) all += (all.empty() ? "" : ", ") + candidate;
  return "; one of " + all;
}

}  // namespace trainer::config

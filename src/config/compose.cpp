#include "config/compose.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestChain = 32;
constexpr std::size_t kLongestRead = (1 << 20) + 1;  // one more than parse_yaml takes

// --- environment variables -----------------------------------------------------------------------
bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool name_part(char c) { return name_start(c) || (c >= '0' && c <= '9'); }

struct Expansion {
  std::string text;
  std::string problem;  // not empty: there is no text
};

// The value of what stands between ${ and }.
Expansion variable(std::string_view inside) {
  std::size_t length = 0;
  while (length < inside.size() && name_part(inside[length])) ++length;
  const std::string name(inside.substr(0, length));
  const std::string_view rest = inside.substr(length);
  if (name.empty() || !name_start(name[0]) || !(rest.empty() || rest.starts_with(":-")))
    return {{},
            "expected ${NAME} or ${NAME:-default}, found " +
                quote("${" + std::string(inside) + "}") + "; $${ is a literal ${"};
  const char* value = std::getenv(name.c_str());
  if (value != nullptr && *value != '\0') return {value, {}};
  if (!rest.empty()) return {std::string(rest.substr(2)), {}};
  if (value != nullptr) return {};
  return {{},
          "environment variable " + name + " is not set; set it, or give a default: ${" + name +
              ":-default}"};
}

Expansion expand_text(std::string_view text) {
  Expansion result;
  while (true) {
    const std::size_t at = text.find("${");
    result.text.append(text.substr(0, at));
    if (at == std::string_view::npos) return result;
    text.remove_prefix(at + 2);
    if (result.text.ends_with('$')) {
      result.text.back() = '$';
      result.text += '{';
      continue;
    }
    const std::size_t end = text.find('}');
    if (end == std::string_view::npos) return {{}, "${ without its }; $${ is a literal ${"};
    Expansion value = variable(text.substr(0, end));
    if (!value.problem.empty()) return value;
    result.text += value.text;
    text.remove_prefix(end + 1);
  }
}

void expand(Node& node, const std::string& path, Problems& problems) {
  for (std::size_t i = 0; i < node.items.size(); ++i)
    expand(node.items[i], join_path(path, std::to_string(i)), problems);
  for (Entry& entry : node.entries) expand(entry.value, join_path(path, entry.key), problems);
  if (node.kind != Node::Kind::scalar || node.text.find("${") == std::string::npos) return;
  Expansion expansion = expand_text(node.text);
  if (!expansion.problem.empty()) {
    problems.add(node.place, path, expansion.problem);
    node.reported = true;
    return;
  }
  node.text = std::move(expansion.text);
  node.expanded = true;
}

// --- base files ----------------------------------------------------------------------------------
// `over` on top of `base`: maps are merged, unless their kinds differ; the rest is replaced.
Node merge(Node base, Node over) {
  if (base.kind != Node::Kind::map || over.kind != Node::Kind::map) return over;
  const Entry* old_kind = base.find("kind");
  const Entry* new_kind = over.find("kind");
  if (old_kind != nullptr && new_kind != nullptr && old_kind->value.text != new_kind->value.text)
    return over;
  for (Entry& entry : over.entries) {
    if (Entry* old = base.find(entry.key)) {
      old->value = merge(std::move(old->value), std::move(entry.value));
      old->key_place = entry.key_place;
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
  base.place = over.place;
  return base;
}

// The text of a file, or why it can't be read.
struct FileText {
  std::string text;
  std::string problem;
};

FileText read_file(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found) return {{}, "no such file"};
  if (error) return {{}, error.message()};
  if (fs::is_directory(status)) return {{}, "is a folder, not an experiment file"};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {{}, "can't be opened for reading"};
  FileText result;
  result.text.resize(kLongestRead);
  stream.read(result.text.data(), static_cast<std::streamsize>(kLongestRead));
  result.text.resize(static_cast<std::size_t>(stream.gcount()));
  if (stream.bad()) return {{}, "can't be read"};
  return result;
}

class Composer {
 public:
  Composer(Files files, Problems& problems) : files_(files), problems_(problems) {}

  bool file(const fs::path& path, Node& root) {
    FileText content = read_file(path);
    if (!content.problem.empty()) {
      problems_.add(Place{problems_.add_source(path.string()), 0, 0}, "", content.problem);
      return false;
    }
    chain_.push_back(identity(path));
    const bool complete = text(content.text, path.string(), path.parent_path(), root);
    chain_.pop_back();
    return complete;
  }

  bool text(std::string_view yaml, const std::string& name, const fs::path& folder, Node& root) {
    const int source = problems_.add_source(name);
    if (yaml.starts_with("\xEF\xBB\xBF")) yaml.remove_prefix(3);
    if (!parse_yaml(yaml, source, true, root, problems_)) return false;
    if (root.kind == Node::Kind::null) {
      problems_.add(Place{source, 1, 1}, "",
                    "the file is empty; an experiment has at least model, data and optim");
      return false;
    }
    if (root.kind != Node::Kind::map) {
      problems_.add(root.place, "", "an experiment file is a map of keys, found " + describe(root));
      return false;
    }
    expand(root, "", problems_);
    return inherit(folder, root);
  }

 private:
  static fs::path identity(const fs::path& path) {
    std::error_code error;
    fs::path canonical = fs::weakly_canonical(path, error);
    return error ? path : canonical;
  }

  bool inherit(const fs::path& folder, Node& root) {
    const auto entry = std::find_if(root.entries.begin(), root.entries.end(),
                                    [](const Entry& one) { return one.key == "base"; });
    if (entry == root.entries.end()) return true;
    const Node value = std::move(entry->value);
    root.entries.erase(entry);
    if (value.reported) return false;
    const auto refuse = [&](const std::string& message) {
      problems_.add(value.place, "base", message);
      return false;
    };
    if (value.kind != Node::Kind::scalar || value.text.empty())
      return refuse("expected the path of an experiment file, found " + describe(value));
    if (files_ == Files::refused) return refuse("base files are switched off here");
    const fs::path path = (folder / value.text).lexically_normal();
    if (chain_.size() >= kLongestChain) return refuse("more than 32 files inherit from each other");
    const auto first = std::find(chain_.begin(), chain_.end(), identity(path));
    if (first != chain_.end()) return refuse(cycle(first, path));
    const FileText readable = read_file(path);
    if (!readable.problem.empty()) return refuse(quote(path.string()) + ": " + readable.problem);
    Node base;
    const bool complete = file(path, base);
    if (complete) root = merge(std::move(base), std::move(root));
    return complete;
  }

  std::string cycle(std::vector<fs::path>::const_iterator first, const fs::path& path) const {
    std::string message = "the files inherit from each other: ";
    for (; first != chain_.end(); ++first) message += first->filename().string() + " -> ";
    return message + path.filename().string();
  }

  Files files_;
  Problems& problems_;
  std::vector<fs::path> chain_;
};

// --- overrides -----------------------------------------------------------------------------------
std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> keys;
  std::size_t start = 0;
  while (true) {
    const std::size_t dot = path.find('.', start);
    keys.push_back(path.substr(start, dot - start));
    if (dot == std::string::npos) return keys;
    start = dot + 1;
  }
}

std::optional<std::size_t> list_index(const std::string& key, std::size_t size) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc{} || end != key.data() + key.size() || index >= size) return std::nullopt;
  return index;
}

// The node inside `node` at `key`, made where it is missing; nullptr with a message where there can
// be none.
Node* step_into(Node& node, const std::string& key, const Place& place, std::string& message) {
  if (node.kind == Node::Kind::list) {
    const auto index = list_index(key, node.items.size());
    if (index) return &node.items[*index];
    message = "a list of " + std::to_string(node.items.size()) + " has no item " + quote(key) +
              "; items count from 0";
    return nullptr;
  }
  if (node.kind == Node::Kind::scalar) {
    message =
        "is " + describe(node) + " there, which has no key " + quote(key) + "; set the whole value";
    return nullptr;
  }
  if (node.kind == Node::Kind::null) {
    node.kind = Node::Kind::map;
    node.place = place;
  }
  if (Entry* entry = node.find(key)) {
    return &entry->value;
  }
  Node empty;
  empty.place = place;
  node.entries.push_back(Entry{key, place, std::move(empty)});
  return &node.entries.back().value;
}

void set(const std::vector<std::string>& keys, Node value, const Place& place, Node& root,
         Problems& problems) {
  Node* node = &root;
  std::string path;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    std::string message;
    Node* next = step_into(*node, keys[i], place, message);
    if (next == nullptr) return problems.add(place, path, message);
    // A message about the key now belongs to the override.
    if (i + 1 == keys.size() && node->kind == Node::Kind::map)
      node->find(keys[i])->key_place = place;
    path = join_path(path, keys[i]);
    node = next;
  }
  *node = std::move(value);
}

void apply_override(const std::string& text, Node& root, Problems& problems) {
  std::string shown = "--set " + text;
  std::replace_if(
      shown.begin(), shown.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  const Place place{problems.add_source(shown), 0, 0};
  const std::size_t equals = text.find('=');
  const std::string path = text.substr(0, equals);
  const std::vector<std::string> keys = split(path);
  if (equals == std::string::npos || std::find(keys.begin(), keys.end(), "") != keys.end())
    return problems.add(place, "", "expected KEY=VALUE, such as optim.lr=3e-4");
  if (keys.front() == "base")
    return problems.add(place, "base", "is read before the overrides; set it in the file");
  if (keys.size() > 64) return problems.add(place, "", "more than 64 keys deep");
  Node value;
  value.place = place;
  if (!parse_yaml(std::string_view(text).substr(equals + 1), place.source, false, value, problems))
    return;
  value.place = place;
  expand(value, path, problems);
  set(keys, std::move(value), place, root, problems);
}

}  // namespace

bool compose_file(const fs::path& file, Node& root, Problems& problems) {
  return Composer(Files::allowed, problems).file(file, root);
}

bool compose_text(std::string_view yaml, const std::string& name, Files files, Node& root,
                  Problems& problems) {
  return Composer(files, problems).text(yaml, name, {}, root);
}

void apply_overrides(const std::vector<std::string>& overrides, Node& root, Problems& problems) {
  for (const std::string& one : overrides) apply_override(one, root, problems);
}

}  // namespace trainer::config

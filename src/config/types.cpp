// Reader, and the types that hold other types: lists, optional values, structures and variants.
#include "config/type.h"

#include <algorithm>
#include <utility>

#include "config/scalar.h"
#include "config/schema.h"

namespace trainer::config {
namespace {

bool is_null(const Node& node) {
  if (node.kind == Node::Kind::null) return true;
  return node.kind == Node::Kind::scalar && node.expanded &&
         classify(node.text) == ScalarKind::null;
}

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

std::vector<std::string> names_of(const std::vector<Preset>& presets) {
  std::vector<std::string> names;
  names.reserve(presets.size());
  for (const Preset& preset : presets) names.push_back(preset.name);
  return names;
}

const Preset* find_preset(const std::vector<Preset>& presets, std::string_view name) {
  for (const Preset& preset : presets)
    if (preset.name == name) return &preset;
  return nullptr;
}

void* of_kind(const Kind& kind, const void* variant) {
  return kind.alternative(const_cast<void*>(variant));
}

const Kind& held_kind(const std::vector<Kind>& kinds, const void* variant) {
  for (const Kind& kind : kinds)
    if (of_kind(kind, variant) != nullptr) return kind;
  return kinds.front();
}

std::string nothing_elsewhere(const std::string&) { return {}; }

}  // namespace

// --- Reader --------------------------------------------------------------------------------------
Reader::Scope::Scope(Reader& reader, std::string_view key, const Place& key_place, const Node& node)
    : reader_(reader),
      path_(std::exchange(reader.path_, join_path(reader.path_, key))),
      place_(std::exchange(reader.place_, key_place)),
      or_word_(std::exchange(reader.or_word_, {})) {
  reader.places_[reader.path_] = node.kind == Node::Kind::scalar ? node.place : key_place;
}

Reader::Scope::~Scope() {
  reader_.path_ = std::move(path_);
  reader_.place_ = place_;
  reader_.or_word_ = std::move(or_word_);
}

void Reader::problem(const Node& value, const std::string& message) {
  problems_.add(value.kind == Node::Kind::scalar ? value.place : place_, path_, message);
}

void Reader::expected(const Node& value, const std::string& what, const std::string& hint) {
  problem(value, "expected " + what + or_word_ + ", found " + describe(value) + hint);
}

void Reader::problem_at(const Place& place, const std::string& path, const std::string& message) {
  problems_.add(place, path, message);
}

Place Reader::place_of(std::string path) const {
  while (true) {
    const auto found = places_.find(path);
    if (found != places_.end()) return found->second;
    if (path.empty()) return Place{0, 1, 1};
    const std::size_t dot = path.rfind('.');
    path.resize(dot == std::string::npos ? 0 : dot);
  }
}

// --- List ----------------------------------------------------------------------------------------
void List::read(const Node& node, void* value, Reader& reader) const {
  if (node.reported) return;
  if (node.kind == Node::Kind::scalar)
    if (const Preset* preset = find_preset(presets, node.text)) return preset->assign(value);
  if (node.kind != Node::Kind::list) return reader.expected(node, expects(), hint(node));
  if (node.items.size() < least || node.items.size() > most)
    return reader.problem(
        node, "expected " + expects() + ", found " + std::to_string(node.items.size()) + " items");
  clear(value);
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const Node& one = node.items[i];
    const Reader::Scope scope(reader, std::to_string(i), one.place, one);
    read_item(one, append(value), reader);
  }
}

void List::read_item(const Node& node, void* value, Reader& reader) const {
  if (node.kind == Node::Kind::scalar && find_preset(presets, node.text) != nullptr)
    return reader.problem(
        node, quote(node.text) + " stands for a whole list; write it alone, without [ ] or -");
  item->read(node, value, reader);
}

std::string List::hint(const Node& node) const {
  if (node.kind != Node::Kind::scalar) return {};
  const std::string near = suggestion(node.text, names_of(presets));
  return near.starts_with("; did") ? near : "; a list is written [a, b]";
}

Node List::write(const void* value) const {
  Node node = Node::list({});
  for (std::size_t i = 0; i < size(value); ++i) node.items.push_back(item->write(at(value, i)));
  return node;
}

std::string List::expects() const {
  if (least == most) return "a list of " + std::to_string(least) + ", each " + item->expects();
  const std::string named = presets.empty() ? "" : "one of " + joined(names_of(presets)) + ", or ";
  const std::string count = least > 0 ? "at least " + std::to_string(least) + ", each " : "";
  return named + "a list of " + (count.empty() ? "items, each " : count) + item->expects();
}

std::string List::summary() const {
  if (least == most) return expects();
  return (presets.empty() ? "" : joined(names_of(presets)) + ", or ") + "a list, each " +
         item->summary();
}

// --- Optional ------------------------------------------------------------------------------------
void Optional::read(const Node& node, void* value, Reader& reader) const {
  if (automatic && node.kind == Node::Kind::scalar && node.text == "auto") return reset(value);
  if (!automatic && is_null(node)) return reset(value);
  reader.allow_word(automatic ? " or auto" : " or null");
  const std::size_t before = reader.problems().count();
  inner->read(node, emplace(value), reader);
  reader.allow_word("");
  // A bad single value is none, rather than what an empty one would be.
  if (node.kind != Node::Kind::map && reader.problems().count() > before) reset(value);
}

Node Optional::write(const void* value) const {
  const void* held = get(value);
  if (held != nullptr) return inner->write(held);
  return automatic ? Node::plain("auto") : Node::null();
}

std::string Optional::expects() const {
  return inner->expects() + (automatic ? ", or auto" : ", or null");
}

std::string Optional::summary() const {
  return inner->summary() + (automatic ? ", or auto" : ", or null");
}

// --- Structure -----------------------------------------------------------------------------------
void Structure::read(const Node& node, void* value, Reader& reader) const {
  if (node.reported) return;
  if (node.kind == Node::Kind::map) return read_map(node, value, reader, "", nothing_elsewhere);
  if (read_short(node, value, reader)) return;
  const bool empty_section = node.kind == Node::Kind::null && all_optional();
  reader.expected(node, expects(), empty_section ? "; leave the key out for the defaults" : "");
}

bool Structure::read_short(const Node& node, void* value, Reader& reader) const {
  if (node.kind != Node::Kind::scalar) return false;
  if (!presets.empty()) {
    if (const Preset* preset = find_preset(presets, node.text))
      preset->assign(value);
    else
      reader.expected(node, expects(), suggestion(node.text, names_of(presets)));
    return true;
  }
  if (short_key.empty()) return false;
  const Field* field = find(short_key);
  field->type->read(node, field->member(value), reader);
  return true;
}

void Structure::read_map(const Node& node, void* value, Reader& reader, std::string_view tag,
                         const std::function<std::string(const std::string&)>& elsewhere) const {
  for (const Entry& entry : node.entries) {
    if (!tag.empty() && entry.key == tag) continue;
    if (const Field* field = find(entry.key)) {
      const Reader::Scope scope(reader, entry.key, entry.key_place, entry.value);
      field->type->read(entry.value, field->member(value), reader);
      continue;
    }
    std::string message = "unknown key" + elsewhere(entry.key);
    if (entry.key == "<<")
      message = "merge keys are not part of YAML 1.2; write the keys out, or use base: FILE";
    else if (message == "unknown key")
      message += suggestion(entry.key, keys());
    reader.problem_at(entry.key_place, join_path(reader.path(), entry.key), message);
  }
  for (const Field& field : fields)
    if (field.required && node.find(field.key) == nullptr)
      reader.problem_at(reader.key_place(), join_path(reader.path(), field.key),
                        "missing required key; expected " + field.type->expects());
}

Node Structure::write(const void* value) const {
  Node node = Node::map();
  for (const Field& field : fields)
    node.add(field.key, field.type->write(field.member(const_cast<void*>(value))));
  return node;
}

std::string Structure::expects() const {
  const std::string map = "a map with the keys " + joined(keys());
  if (!presets.empty()) return "one of " + joined(names_of(presets)) + ", or " + map;
  return short_key.empty() ? map : find(short_key)->type->expects() + ", or " + map;
}

std::string Structure::summary() const {
  std::string kinds_of_value = short_key.empty() ? "" : find(short_key)->type->summary() + ", or ";
  for (const Preset& preset : presets) kinds_of_value += preset.name + ", ";
  return kinds_of_value + (presets.empty() ? "a map" : "or a map");
}

const Field* Structure::find(std::string_view key) const {
  for (const Field& field : fields)
    if (field.key == key) return &field;
  return nullptr;
}

bool Structure::all_optional() const {
  return std::none_of(fields.begin(), fields.end(), [](const Field& f) { return f.required; });
}

std::vector<std::string> Structure::keys() const {
  std::vector<std::string> all;
  for (const Field& field : fields) all.push_back(field.key);
  return all;
}

// --- Tagged --------------------------------------------------------------------------------------
void Tagged::read(const Node& node, void* value, Reader& reader) const {
  if (node.reported) return;
  const Kind* kind = chosen(node, reader);
  if (kind == nullptr) return;
  kind->structure->read_map(node, kind->select(value), reader, "kind",
                            [&](const std::string& key) { return elsewhere(key, *kind); });
}

// The kind that the map names, or nullptr after a problem.
const Kind* Tagged::chosen(const Node& node, Reader& reader) const {
  if (node.kind != Node::Kind::map) {
    const bool is_name = node.kind == Node::Kind::scalar && find(node.text) != nullptr;
    reader.expected(node, expects(), is_name ? "; write {kind: " + node.text + "}" : "");
    return nullptr;
  }
  const Entry* entry = node.find("kind");
  if (entry == nullptr && !default_kind.empty()) return find(default_kind);
  if (entry == nullptr) {
    for (const Entry& other : node.entries)
      if (suggestion(other.key, {"kind"}).starts_with("; did")) {
        reader.problem_at(other.key_place, join_path(reader.path(), other.key),
                          "unknown key; did you mean \"kind\"?");
        return nullptr;
      }
    reader.problem_at(reader.key_place(), join_path(reader.path(), "kind"),
                      "missing required key; one of " + joined(names()));
    return nullptr;
  }
  const Reader::Scope scope(reader, "kind", entry->key_place, entry->value);
  if (entry->value.reported) return nullptr;
  const Kind* kind = entry->value.kind == Node::Kind::scalar ? find(entry->value.text) : nullptr;
  if (kind == nullptr) {
    const std::string near = suggestion(entry->value.text, names());
    reader.expected(entry->value, "one of " + joined(names()),
                    near.starts_with("; did") ? near : "");
  }
  return kind;
}

std::string Tagged::elsewhere(const std::string& key, const Kind& here) const {
  std::vector<std::string> owners;
  for (const Kind& kind : kinds)
    if (kind.structure->find(key) != nullptr) owners.push_back(kind.name);
  if (owners.empty()) return {};
  return " for kind " + here.name + "; it belongs to kind " + joined(owners);
}

Node Tagged::write(const void* value) const {
  const Kind& kind = held_kind(kinds, value);
  Node node = Node::map();
  node.add("kind", Node::string(kind.name));
  for (Entry& entry : kind.structure->write(of_kind(kind, value)).entries)
    node.entries.push_back(std::move(entry));
  return node;
}

std::string Tagged::expects() const { return "a map with a kind (" + joined(names()) + ")"; }

std::vector<std::string> Tagged::names() const {
  std::vector<std::string> all;
  for (const Kind& kind : kinds) all.push_back(kind.name);
  return all;
}

const Kind* Tagged::find(std::string_view kind) const {
  for (const Kind& one : kinds)
    if (one.name == kind) return &one;
  return nullptr;
}

// --- Named ---------------------------------------------------------------------------------------
void Named::read(const Node& node, void* value, Reader& reader) const {
  if (node.reported) return;
  if (node.kind == Node::Kind::scalar) {
    const Kind* kind = find(node.text, node.place, reader);
    if (kind == nullptr) return;
    const Reader::Scope scope(reader, kind->name, node.place, node);
    return kind->structure->read_map(Node::map(), kind->select(value), reader, "",
                                     nothing_elsewhere);
  }
  if (node.kind != Node::Kind::map || node.entries.size() != 1) {
    const bool several = node.kind == Node::Kind::map && node.entries.size() > 1;
    const std::string& first = several ? node.entries[0].key : name;
    return reader.expected(
        node, expects(),
        several ? " of several keys; settings go inside: {" + first + ": {...}}" : "");
  }
  const Entry& entry = node.entries[0];
  const Kind* kind = find(entry.key, entry.key_place, reader);
  if (kind == nullptr) return;
  const Reader::Scope scope(reader, entry.key, entry.key_place, entry.value);
  void* target = kind->select(value);
  if (is_null(entry.value))
    kind->structure->read_map(Node::map(), target, reader, "", nothing_elsewhere);
  else
    kind->structure->read(entry.value, target, reader);
}

const Kind* Named::find(const std::string& kind, const Place& place, Reader& reader) const {
  std::vector<std::string> names;
  for (const Kind& one : kinds) {
    if (one.name == kind) return &one;
    names.push_back(one.name);
  }
  reader.problem_at(place, reader.path(),
                    "unknown " + name + " " + quote(kind) + suggestion(kind, names));
  return nullptr;
}

Node Named::write(const void* value) const {
  const Kind& kind = held_kind(kinds, value);
  if (kind.structure->fields.empty()) return Node::string(kind.name);
  Node node = Node::map();
  node.add(kind.name, kind.structure->write(of_kind(kind, value)));
  return node;
}

std::string Named::expects() const { return "the name of a " + name + ", or {name: settings}"; }

}  // namespace trainer::config

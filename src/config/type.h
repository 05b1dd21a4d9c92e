// Types of fields. A type reads a node into a value with messages, writes a value as a node, and
// describes itself as JSON schema and for the reference page: so one declaration of a field drives
// all four. Values are passed as untyped pointers; the typed handles `Of<T>` in declare.h make sure
// that a field and its type fit.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/node.h"

namespace trainer::config {

// What reading leaves behind besides the value: problems, and where each path was written.
class Reader {
 public:
  explicit Reader(Problems& problems) : problems_(problems) {}

  // Goes down to `key`, written at `key_place`, with its value `node`, while it lives.
  class Scope {
   public:
    Scope(Reader& reader, std::string_view key, const Place& key_place, const Node& node);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Reader& reader_;
    std::string path_;
    Place place_;
    std::string or_word_;
  };

  const std::string& path() const { return path_; }
  // A problem of the value at the current path: at the scalar itself, or at the key of a container.
  void problem(const Node& value, const std::string& message);
  // "expected WHAT, found VALUE" + hint.
  void expected(const Node& value, const std::string& what, const std::string& hint = {});
  // " or auto" where the current value may be that too.
  void allow_word(const std::string& or_word) { or_word_ = or_word; }
  void problem_at(const Place& place, const std::string& path, const std::string& message);
  // Of the key that leads to the current value.
  const Place& key_place() const { return place_; }
  // Where the field at `path` was written, or the nearest field around it.
  Place place_of(std::string path) const;
  Problems& problems() { return problems_; }

 private:
  Problems& problems_;
  std::string path_;
  Place place_{0, 1, 1};
  std::string or_word_;
  std::map<std::string, Place> places_;
};

using Json = nlohmann::ordered_json;
struct Schema;  // schema.h

// The reference page while it is written.
struct Page {
  std::string text;
  std::map<const void*, std::string> documented;  // type -> path of its description
  std::string lead;                               // goes under the next heading
  void line(const std::string& one);
};

class Type {
 public:
  virtual ~Type() = default;
  // Overwrites *value, which holds a valid value, as far as `node` allows; reports the rest.
  virtual void read(const Node& node, void* value, Reader& reader) const = 0;
  virtual Node write(const void* value) const = 0;
  virtual Json schema(Schema& schema) const = 0;
  // "an integer of at least 1": what a message says was expected, and the reference page's type.
  virtual std::string expects() const = 0;
  // The same for the reference page, which describes the inside of a map below.
  virtual std::string summary() const { return expects(); }
  // The sections that describe the fields inside, if it has any.
  virtual void document(Page&, const std::string& /*path*/) const {}
};
using TypePtr = std::shared_ptr<const Type>;

struct Field {
  std::string key;
  TypePtr type;
  std::string help;
  bool required = false;
  std::function<void*(void*)> member;  // of a struct
};

// A name that stands for a whole value.
struct Preset {
  std::string name;
  std::string help;
  std::function<void(void*)> assign;
};

// A map with declared keys.
class Structure : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override;
  Node write(const void* value) const override;
  Json schema(Schema& schema) const override;
  std::string expects() const override;
  std::string summary() const override;
  void document(Page& page, const std::string& path) const override;

  // The parts that the tagged types need. `tag` is a key that the caller has read; `elsewhere` says
  // where an unknown key belongs, or nothing.
  void read_map(const Node& node, void* value, Reader& reader, std::string_view tag,
                const std::function<std::string(const std::string&)>& elsewhere) const;
  Json object_schema(Schema& schema) const;
  const Field* find(std::string_view key) const;
  bool all_optional() const;
  // A table of the fields that `keep` accepts, then the sections of the fields in it.
  void table(Page& page, const std::string& path,
             const std::function<bool(const Field&)>& keep) const;

  std::vector<Field> fields;
  std::string short_key;        // a value that is no map is read as this field
  std::vector<Preset> presets;  // or is one of these names
  std::shared_ptr<void> defaults;

 private:
  std::vector<std::string> keys() const;
  bool read_short(const Node& node, void* value, Reader& reader) const;
};

// One alternative of a variant.
struct Kind {
  std::string name;
  std::string help;
  std::shared_ptr<const Structure> structure;
  std::function<void*(void*)> select;       // makes the variant hold it, with defaults
  std::function<void*(void*)> alternative;  // the alternative where the variant is of this kind
};

// A map whose key `kind` says which of several structures it is.
class Tagged : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override;
  Node write(const void* value) const override;
  Json schema(Schema& schema) const override;
  std::string expects() const override;
  void document(Page& page, const std::string& path) const override;

  std::string name;
  std::vector<Kind> kinds;
  std::string default_kind;  // empty: `kind` is required

 private:
  std::vector<std::string> names() const;
  const Kind* find(std::string_view kind) const;
  const Kind* chosen(const Node& node, Reader& reader) const;
  std::string elsewhere(const std::string& key, const Kind& here) const;
};

// A map of one key, which says which of several structures its value is; a name alone is short for
// one with its defaults. Written as the name alone where the structure has no fields.
class Named : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override;
  Node write(const void* value) const override;
  Json schema(Schema& schema) const override;
  std::string expects() const override;
  void document(Page& page, const std::string& path) const override;

  std::string name;
  std::vector<Kind> kinds;

 private:
  const Kind* find(const std::string& kind, const Place& place, Reader& reader) const;
};

class List : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override;
  Node write(const void* value) const override;
  Json schema(Schema& schema) const override;
  std::string expects() const override;
  std::string summary() const override;
  void document(Page& page, const std::string& path) const override;

  TypePtr item;
  std::size_t least = 0;
  std::size_t most = 0;
  std::vector<Preset> presets;  // or is one of these names
  std::function<void(void*)> clear;
  std::function<void*(void*)> append;
  std::function<std::size_t(const void*)> size;
  std::function<const void*(const void*, std::size_t)> at;

 private:
  void read_item(const Node& node, void* value, Reader& reader) const;
  std::string hint(const Node& node) const;
};

// A value or a word for "none given": `auto` or `null`.
class Optional : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override;
  Node write(const void* value) const override;
  Json schema(Schema& schema) const override;
  std::string expects() const override;
  std::string summary() const override;
  void document(Page& page, const std::string& path) const override;

  TypePtr inner;
  bool automatic = false;  // the word is `auto`, else `null`
  std::function<void(void*)> reset;
  std::function<void*(void*)> emplace;
  std::function<const void*(const void*)> get;  // nullptr where there is none
};

}  // namespace trainer::config

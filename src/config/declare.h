// How fields are declared: typed handles over the types in type.h and scalar_types.h.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "config/experiment.h"
#include "config/type.h"

namespace trainer::config {

// A type of values T.
template <class T>
struct Of {
  TypePtr type;
};

// --- scalars -------------------------------------------------------------------------------------
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above = false;  // low itself is out
  bool below = false;  // high itself is out
};
inline Range at_least(double low) { return {.low = low}; }
inline Range between(double low, double high) { return {.low = low, .high = high}; }
inline Range above(double low, double high) { return {.low = low, .high = high, .above = true}; }
// low in, high out.
inline Range below(double low, double high) { return {.low = low, .high = high, .below = true}; }

Of<bool> boolean();
Of<double> number(const Range& range);
Of<std::int64_t> integer(std::int64_t low, std::int64_t high);
// One of a few integers, none of them negative.
Of<std::int64_t> one_of(const std::vector<std::int64_t>& values);
Of<std::uint64_t> seed_number();
// A number of bytes, at least 1: 512MiB, 1.5GB, 4096.
Of<std::int64_t> byte_size();
Of<std::string> text(std::size_t longest);
// The same with line breaks and other control characters, and it may be empty.
Of<std::string> any_text(std::size_t longest);
// Letters, digits, ".", "_" and "-": a part of a path.
Of<std::string> folder_name();
Of<std::string> word(const std::vector<std::string>& words);
Of<Device> device_name();
// bytes, characters, or a path.
Of<Tokenizer> tokenizer_name();

enum class Zero { allowed, refused };
enum class Times { allowed, refused };  // whether 10min is a length here
Of<Length> length(Zero zero, Times times);

TypePtr make_choice(std::vector<std::string> names, std::function<int(const void*)> get,
                    std::function<void(void*, int)> set);
template <class E>
Of<E> choice(const std::vector<std::pair<std::string, E>>& options) {
  std::vector<std::string> names;
  std::vector<E> values;
  for (const auto& [name, value] : options) {
    names.push_back(name);
    values.push_back(value);
  }
  const auto get = [values](const void* value) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == *static_cast<const E*>(value)) return static_cast<int>(i);
    return 0;
  };
  const auto set = [values](void* value, int index) {
    *static_cast<E*>(value) = values[static_cast<std::size_t>(index)];
  };
  return {make_choice(std::move(names), get, set)};
}

// --- containers ----------------------------------------------------------------------------------
// A name that stands for a whole list.
template <class T>
struct ListPreset {
  std::string name;
  std::vector<T> value;
  std::string help;
};

template <class T>
Of<std::vector<T>> list(const Of<T>& item, std::size_t least, std::size_t most,
                        const std::vector<ListPreset<T>>& presets = {}) {
  using Values = std::vector<T>;
  auto type = std::make_shared<List>();
  type->item = item.type;
  type->least = least;
  type->most = most;
  type->clear = [](void* values) { static_cast<Values*>(values)->clear(); };
  type->append = [](void* values) -> void* {
    return &static_cast<Values*>(values)->emplace_back();
  };
  type->size = [](const void* values) { return static_cast<const Values*>(values)->size(); };
  type->at = [](const void* values, std::size_t i) -> const void* {
    return &static_cast<const Values*>(values)->at(i);
  };
  for (const ListPreset<T>& preset : presets)
    type->presets.push_back({preset.name, preset.help, [value = preset.value](void* values) {
                               *static_cast<Values*>(values) = value;
                             }});
  return {type};
}

template <class T>
Of<std::optional<T>> optional(const Of<T>& inner, bool automatic) {
  using Value = std::optional<T>;
  auto type = std::make_shared<Optional>();
  type->inner = inner.type;
  type->automatic = automatic;
  type->reset = [](void* value) { static_cast<Value*>(value)->reset(); };
  type->emplace = [](void* value) -> void* { return &static_cast<Value*>(value)->emplace(); };
  type->get = [](const void* value) -> const void* {
    const auto& held = *static_cast<const Value*>(value);
    return held ? &*held : nullptr;
  };
  return {type};
}
template <class T>
Of<Auto<T>> automatic(const Of<T>& inner) {
  return optional(inner, true);
}
template <class T>
Of<Maybe<T>> maybe(const Of<T>& inner) {
  return optional(inner, false);
}

// --- structures ----------------------------------------------------------------------------------
// The fields of S, declared one by one; defaults are S's own initialisers.
template <class S>
class Fields {
 public:
  Fields() { structure_->defaults = std::make_shared<S>(); }

  // Owner is S or a base of it.
  template <class Owner, class T>
  Fields& field(const std::string& key, T Owner::*member, const Of<T>& type,
                const std::string& help) {
    structure_->fields.push_back(Field{key, type.type, help, false, [member](void* value) -> void* {
                                         return &(static_cast<S*>(value)->*member);
                                       }});
    return *this;
  }
  template <class Owner, class T>
  Fields& required(const std::string& key, T Owner::*member, const Of<T>& type,
                   const std::string& help) {
    field(key, member, type, help);
    structure_->fields.back().required = true;
    return *this;
  }
  // A value that is no map stands for this field.
  Fields& short_for(const std::string& key) {
    structure_->short_key = key;
    return *this;
  }
  // A name stands for a whole value.
  Fields& preset(const std::string& name, const S& value, const std::string& help) {
    structure_->presets.push_back(
        {name, help, [value](void* target) { *static_cast<S*>(target) = value; }});
    return *this;
  }

  Of<S> type() const { return {structure_}; }
  std::shared_ptr<const Structure> structure() const { return structure_; }

 private:
  std::shared_ptr<Structure> structure_ = std::make_shared<Structure>();
};

namespace internal {

template <class V, class S>
Kind kind_of(const std::string& name, const Fields<S>& fields, const std::string& help,
             const S& initial, std::function<bool(const S&)> is_this) {
  Kind kind{name, help, fields.structure(), {}, {}};
  kind.select = [initial](void* variant) -> void* {
    return &static_cast<V*>(variant)->template emplace<S>(initial);
  };
  kind.alternative = [is_this = std::move(is_this)](void* variant) -> void* {
    S* held = std::get_if<S>(static_cast<V*>(variant));
    return held != nullptr && is_this(*held) ? held : nullptr;
  };
  return kind;
}

}  // namespace internal

// The kinds of a variant V, in a Tagged or a Named type.
template <class V, class T>
class Kinds {
 public:
  explicit Kinds(const std::string& name) { type_->name = name; }

  template <class S>
  Kinds& kind(const std::string& name, const Fields<S>& fields, const std::string& help) {
    type_->kinds.push_back(
        internal::kind_of<V, S>(name, fields, help, S{}, [](const S&) { return true; }));
    return *this;
  }
  // A kind that sets a member of S, where several kinds share one structure.
  template <class S, class M>
  Kinds& kind(const std::string& name, const Fields<S>& fields, const std::string& help,
              M S::*member, M value) {
    S initial{};
    initial.*member = value;
    type_->kinds.push_back(internal::kind_of<V, S>(
        name, fields, help, initial, [member, value](const S& s) { return s.*member == value; }));
    return *this;
  }
  Kinds& by_default(const std::string& name) requires requires(T t) { t.default_kind; }
  {
    type_->default_kind = name;
    return *this;
  }
  Of<V> type() const { return {type_}; }

 private:
  std::shared_ptr<T> type_ = std::make_shared<T>();
};
template <class V>
using TaggedKinds = Kinds<V, Tagged>;
template <class V>
using NamedKinds = Kinds<V, Named>;

}  // namespace trainer::config

// The types as JSON schema, draft 2020-12.
#include "config/schema.h"

#include <algorithm>

namespace trainer::config {
namespace {

// A map whose one key is `key`.
Json single_key(const std::string& key, Json value) {
  return {{"type", "object"},
          {"properties", {{key, std::move(value)}}},
          {"required", Json::array({key})},
          {"additionalProperties", false}};
}

Json preset_schema(const std::vector<Preset>& presets) {
  Json names = Json::array();
  for (const Preset& preset : presets) names.push_back(preset.name);
  return or_variable({{"enum", std::move(names)}});
}

// A reference to the definition `name`, which `make` makes once.
template <class Make>
Json defined(Schema& schema, const std::string& name, Make make) {
  if (!schema.definitions.contains(name)) {
    schema.definitions[name] = true;
    // Not assigned directly: making it may add definitions and move this one.
    Json definition = make();
    schema.definitions[name] = std::move(definition);
  }
  return {{"$ref", "#/$defs/" + name}};
}

}  // namespace

Json any_of(std::vector<Json> alternatives) { return {{"anyOf", Json(std::move(alternatives))}}; }

Json or_variable(Json value) { return any_of({std::move(value), {{"$ref", "#/$defs/variable"}}}); }

Json List::schema(Schema& schema) const {
  Json array{
      {"type", "array"}, {"items", item->schema(schema)}, {"minItems", least}, {"maxItems", most}};
  if (presets.empty()) return array;
  return any_of({preset_schema(presets), std::move(array)});
}

Json Optional::schema(Schema& schema) const {
  Json none = automatic ? Json{{"const", "auto"}} : Json{{"type", "null"}};
  return any_of({std::move(none), inner->schema(schema)});
}

Json Structure::object_schema(Schema& schema) const {
  Json properties = Json::object();
  Json required = Json::array();
  for (const Field& field : fields) {
    Json property = field.type->schema(schema);
    property["description"] = field.help;
    properties[field.key] = std::move(property);
    if (field.required) required.push_back(field.key);
  }
  Json object{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) object["required"] = std::move(required);
  object["additionalProperties"] = false;
  return object;
}

Json Structure::schema(Schema& schema) const {
  Json object = object_schema(schema);
  if (presets.empty() && short_key.empty()) return object;
  std::vector<Json> alternatives;
  if (!short_key.empty()) alternatives.push_back(find(short_key)->type->schema(schema));
  if (!presets.empty()) alternatives.push_back(preset_schema(presets));
  alternatives.push_back(std::move(object));
  return any_of(std::move(alternatives));
}

Json Tagged::schema(Schema& schema) const {
  return defined(schema, name, [&] {
    Json one_of = Json::array();
    for (const Kind& kind : kinds) {
      Json object = kind.structure->object_schema(schema);
      Json properties{{"kind", {{"const", kind.name}, {"description", kind.help}}}};
      for (auto& [key, value] : object["properties"].items()) properties[key] = value;
      object["properties"] = std::move(properties);
      Json required = object.value("required", Json::array());
      if (kind.name != default_kind) required.insert(required.begin(), "kind");
      object["required"] = std::move(required);
      one_of.push_back(std::move(object));
    }
    one_of.push_back({{"type", "object"},
                      {"properties", {{"kind", {{"$ref", "#/$defs/variable"}}}}},
                      {"required", Json::array({"kind"})}});
    return Json{{"oneOf", std::move(one_of)}};
  });
}

Json Named::schema(Schema& schema) const {
  return defined(schema, name, [&] {
    Json bare = Json::array();
    std::vector<Json> alternatives;
    for (const Kind& kind : kinds) {
      Json value = kind.structure->schema(schema);
      if (kind.structure->all_optional()) {
        bare.push_back(kind.name);
        value = any_of({{{"type", "null"}}, std::move(value)});
      }
      value["description"] = kind.help;
      alternatives.push_back(single_key(kind.name, std::move(value)));
    }
    alternatives.insert(alternatives.begin(), or_variable({{"enum", std::move(bare)}}));
    return any_of(std::move(alternatives));
  });
}

}  // namespace trainer::config

// The types on the reference page, in Markdown.
#include <algorithm>
#include <utility>

#include "config/type.h"

namespace trainer::config {
namespace {

std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2))
    text.insert(at, 1, '\\');
  return text;
}

std::string code(const std::string& text) {
  return std::string(1, '`').append(text).append(1, '`');
}

// The value of a field that is not set.
std::string default_of(const Field& field, void* defaults) {
  if (field.required) return "required";
  const Node node = field.type->write(field.member(defaults));
  if (node.kind != Node::Kind::map) return code(write_flow(node));
  const Entry* kind = node.find("kind");
  return kind == nullptr ? "see below" : code("kind: " + kind->value.text);
}

void heading(Page& page, const std::string& path) {
  page.line("\n## " + code(path) + "\n");
  page.text += std::exchange(page.lead, {});
}

// How Markdown's renderers name the heading of `path`.
std::string anchor(std::string path) {
  std::erase(path, '.');
  return path;
}

// Whether `type` is described already; if not, it is now at `path`.
bool described(Page& page, const void* type, const std::string& path) {
  const auto [known, added] = page.documented.try_emplace(type, path);
  if (added) return false;
  heading(page, path);
  page.line("As [`" + known->second + "`](#" + anchor(known->second) + ").");
  return true;
}

bool in_every_kind(const std::vector<Kind>& kinds, const Field& field) {
  return kinds.size() > 1 && std::all_of(kinds.begin(), kinds.end(), [&](const Kind& kind) {
           const Field* same = kind.structure->find(field.key);
           return same != nullptr && same->help == field.help;
         });
}

std::string kinds_of(const std::vector<Kind>& kinds, const Structure* structure) {
  std::string names;
  for (const Kind& kind : kinds)
    if (kind.structure.get() == structure) names += (names.empty() ? "`" : ", `") + kind.name + "`";
  return names;
}

}  // namespace

void Page::line(const std::string& one) { text += one + "\n"; }

void List::document(Page& page, const std::string& path) const {
  if (!presets.empty()) page.lead = "A name in place of a list:\n\n";
  for (const Preset& preset : presets)
    page.lead += "- " + code(preset.name) + ": " + preset.help + "\n";
  if (!presets.empty()) page.lead += "\n";
  item->document(page, path);
}

void Optional::document(Page& page, const std::string& path) const { inner->document(page, path); }

void Structure::table(Page& page, const std::string& path,
                      const std::function<bool(const Field&)>& keep) const {
  page.line("| key | type | default | meaning |");
  page.line("|---|---|---|---|");
  for (const Field& field : fields)
    if (keep(field))
      page.line("| " + code(field.key) + " | " + cell(field.type->summary()) + " | " +
                default_of(field, defaults.get()) + " | " + cell(field.help) + " |");
  for (const Field& field : fields)
    if (keep(field)) field.type->document(page, join_path(path, field.key));
}

void Structure::document(Page& page, const std::string& path) const {
  if (described(page, this, path)) return;
  if (!path.empty()) heading(page, path);
  if (!short_key.empty()) page.line("A value alone is short for `{" + short_key + ": VALUE}`.\n");
  table(page, path, [](const Field&) { return true; });
}

void Tagged::document(Page& page, const std::string& path) const {
  if (described(page, this, path)) return;
  heading(page, path);
  page.line("| kind | meaning |");
  page.line("|---|---|");
  for (const Kind& kind : kinds)
    page.line("| `" + kind.name + "`" + (kind.name == default_kind ? " (default)" : "") + " | " +
              cell(kind.help) + " |");
  const auto common = [&](const Field& field) { return in_every_kind(kinds, field); };
  const auto own = [&](const Field& field) { return !common(field); };
  std::vector<const Structure*> done;
  for (const Kind& kind : kinds) {
    const Structure* structure = kind.structure.get();
    if (std::find(done.begin(), done.end(), structure) != done.end()) continue;
    done.push_back(structure);
    if (std::none_of(structure->fields.begin(), structure->fields.end(), own)) continue;
    page.line("\nKind " + kinds_of(kinds, structure) + ":\n");
    structure->table(page, path, own);
  }
  const Structure& any = *kinds.front().structure;
  if (std::none_of(any.fields.begin(), any.fields.end(), common)) return;
  page.line("\nEvery kind:\n");
  any.table(page, path, common);
}

void Named::document(Page& page, const std::string& path) const {
  if (described(page, this, path)) return;
  heading(page, path);
  page.line(
      "Each is a name, or a map of the name to its settings. A name alone, where no key is "
      "required, has the defaults.");
  for (const Kind& kind : kinds) {
    const Structure& structure = *kind.structure;
    page.line("\n`" + kind.name + "`: " + kind.help);
    if (structure.fields.empty()) continue;
    page.line("");
    if (!structure.short_key.empty())
      page.line("Short form: `{" + kind.name + ": VALUE}` sets `" + structure.short_key + "`.\n");
    for (const Preset& preset : structure.presets)
      page.line("- `{" + kind.name + ": " + preset.name + "}`: " + preset.help);
    if (!structure.presets.empty()) page.line("");
    structure.table(page, path + "." + kind.name, [](const Field&) { return true; });
  }
}

}  // namespace trainer::config

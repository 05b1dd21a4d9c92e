#include "config/load.h"

#include <utility>

#include "config/compose.h"
#include "config/fields.h"
#include "config/rules.h"
#include "config/schema.h"
#include "core/error.h"

namespace trainer::config {
namespace {

// Reads the tree into the experiment, checks the rules and collects what is wrong.
Loaded finish(Node root, bool complete, const std::vector<std::string>& overrides,
              Problems& problems) {
  Loaded loaded;
  if (complete) {
    apply_overrides(overrides, root, problems);
    Reader reader(problems);
    experiment_type().read(root, &loaded.experiment, reader);
    derive(loaded.experiment);
    check_rules(loaded.experiment, reader);
  }
  loaded.problems = problems.in_order();
  return loaded;
}

// What stands before and after the fields on the reference page.
constexpr const char* kIntroduction = R"(# The experiment file

This page is written by `trainer config reference`; the same declarations check the file.

`base: other.yaml` at the top inherits another file, relative to this one: maps are merged, lists
replaced, and a map with another `kind` replaced as a whole. `${NAME}` and `${NAME:-default}` stand
for environment variables in any value; `$${` is a literal `${`; inside `{...}` and `[...]` such a
value needs quotes. `--set key.path=VALUE` overrides on the command line, list items by their index
from 0. Numbers are those of YAML 1.2.

Lengths carry a unit: `500 steps`, `2 epochs`, `1M samples`, or a time such as `90s`, `10min`, `2h`,
`1d`. K, M and G are powers of 1000. Lengths in tokens, `10G tokens`, are for text.

Sizes are bytes: `4096`, `512MiB`, `1.5GB`. KiB, MiB, GiB and TiB are powers of 1024, kB, MB, GB and
TB powers of 1000.
)";

}  // namespace

std::string Problem::text() const {
  return place + ": " + (path.empty() ? "" : path + ": ") + message;
}

Loaded load(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  Problems problems;
  Node root;
  const bool complete = compose_file(file, root, problems);
  return finish(std::move(root), complete, overrides, problems);
}

Loaded load_composed(std::string_view yaml, const std::string& name,
                     const std::vector<std::string>& overrides, Files files) {
  Problems problems;
  Node root;
  const bool complete = compose_text(yaml, name, files, root, problems);
  return finish(std::move(root), complete, overrides, problems);
}

Loaded load_text(std::string_view yaml, const std::string& name,
                 const std::vector<std::string>& overrides) {
  return load_composed(yaml, name, overrides, Files::allowed);
}

Experiment load_or_throw(const std::filesystem::path& file,
                         const std::vector<std::string>& overrides) {
  Loaded loaded = load(file, overrides);
  if (loaded.problems.empty()) return std::move(loaded.experiment);
  std::string message;
  for (const Problem& problem : loaded.problems) message += problem.text() + "\n";
  const std::size_t count = loaded.problems.size();
  throw Error(Exit::config, message + file.string() + ": " + std::to_string(count) +
                                (count == 1 ? " error" : " errors"));
}

std::string print(const Experiment& experiment) {
  return write_yaml(experiment_type().write(&experiment));
}

std::string schema() {
  Schema parts;
  parts.definitions["variable"] = {{"type", "string"}, {"pattern", "\\$\\{"}};
  Json complete = experiment_type().object_schema(parts);
  // A file with a base is checked when it is put together: here only the names of its sections.
  Json overlay{{"type", "object"},
               {"properties", {{"base", {{"type", "string"}, {"minLength", 1}}}}},
               {"required", Json::array({"base"})},
               {"additionalProperties", false}};
  for (const Field& field : experiment_type().fields) overlay["properties"][field.key] = true;
  const Json json{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                  {"title", "trainer experiment"},
                  {"oneOf", Json::array({std::move(complete), std::move(overlay)})},
                  {"$defs", std::move(parts.definitions)}};
  return json.dump(2) + "\n";
}

std::string reference() {
  Page page;
  page.line(kIntroduction);
  experiment_type().document(page, "");
  return page.text;
}

}  // namespace trainer::config

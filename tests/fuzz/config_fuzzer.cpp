// Any text is either an experiment that prints and loads back equal, or has problems with a place
// and a message of one line each. Never a crash. Reads no file: `base:` is refused.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "config/compose.h"
#include "config/load.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// The part after a line of `%%` is an override.
std::vector<std::string> take_override(std::string_view& yaml) {
  const std::size_t cut = yaml.find("\n%%\n");
  if (cut == std::string_view::npos) return {};
  std::string override_text(yaml.substr(cut + 4));
  if (override_text.ends_with('\n')) override_text.pop_back();
  yaml = yaml.substr(0, cut + 1);
  return {override_text};
}

void check(std::string_view yaml) {
  using namespace trainer::config;
  const std::vector<std::string> overrides = take_override(yaml);
  const Loaded loaded = load_composed(yaml, "fuzz.yaml", overrides, Files::refused);
  for (const Problem& problem : loaded.problems) {
    require(!problem.place.empty() && !problem.message.empty(), "a problem has place and message");
    require(problem.message.find('\n') == std::string::npos, "a message is one line");
  }
  if (!loaded.problems.empty()) return;
  const std::string text = print(loaded.experiment);
  const Loaded again = load_composed(text, "printed.yaml", {}, Files::refused);
  if (!again.problems.empty())
    std::fprintf(stderr, "%s\n%s\n", text.c_str(), again.problems.front().text().c_str());
  require(again.problems.empty(), "what is printed loads");
  require(again.experiment == loaded.experiment, "what is printed loads back equal");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

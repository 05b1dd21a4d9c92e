#include "optim/groups.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/text.h"

namespace trainer::optim {
namespace {

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts(1);
  for (const char letter : text) {
    if (separators.find(letter) == std::string_view::npos)
      parts.back() += letter;
    else if (!parts.back().empty())
      parts.emplace_back();
  }
  if (parts.back().empty()) parts.pop_back();
  return parts;
}

// The parameter a glob was most likely meant for, or an empty string. The whole pattern is compared
// first, then its literal parts against the parts of the names: `*.biass` means `fc.bias`.
std::string likely_parameter(const std::string& glob, const std::vector<std::string>& names) {
  std::string literal = glob;
  std::erase_if(literal, [](char letter) { return letter == '*' || letter == '?'; });
  if (std::string whole = nearest(literal, names); !whole.empty()) return whole;

  std::vector<std::string> parts = split(glob, "*?.");
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  for (const std::string& part : parts) {
    for (const std::string& name : names)
      if (!nearest(part, split(name, ".")).empty()) return name;
  }
  return {};
}

[[noreturn]] void refuse_unmatched(std::size_t index, const std::string& glob,
                                   const std::vector<std::string>& names) {
  std::string message = "optim.groups[" + std::to_string(index) + "].match: \"" + glob +
                        "\" matches no parameter of the model";
  if (const std::string near = likely_parameter(glob, names); !near.empty())
    message += "; the nearest is \"" + near + "\"";
  else if (!names.empty())
    message += "; its parameters run from \"" + names.front() + "\" to \"" + names.back() + "\"";
  throw Error(Exit::config, message);
}

[[noreturn]] void refuse_shadowed(std::size_t index, const std::string& glob) {
  throw Error(Exit::config, "optim.groups[" + std::to_string(index) + "].match: \"" + glob +
                                "\" matches only parameters that earlier groups take; put it "
                                "before them or remove it");
}

}  // namespace

std::vector<GroupSettings> assign_groups(const config::OptimCommon& config,
                                         const std::vector<std::string>& names) {
  std::vector<std::optional<GroupSettings>> taken(names.size());
  for (std::size_t g = 0; g < config.groups.size(); ++g) {
    const config::Group& group = config.groups[g];
    bool matches = false;
    bool takes = false;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (!glob_match(group.match, names[i])) continue;
      matches = true;
      if (taken[i]) continue;
      takes = true;
      taken[i] = GroupSettings{group.lr_factor, group.weight_decay.value_or(config.weight_decay)};
    }
    if (!matches) refuse_unmatched(g, group.match, names);
    if (!takes) refuse_shadowed(g, group.match);
  }
  std::vector<GroupSettings> settings;
  settings.reserve(names.size());
  for (const auto& group : taken)
    settings.push_back(group.value_or(GroupSettings{1.0, config.weight_decay}));
  return settings;
}

}  // namespace trainer::optim

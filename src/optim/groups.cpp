#include "optim/groups.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

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

// --- layer decay ---------------------------------------------------------------------------------
using Parts = std::vector<std::string>;
// Stage (0 where there are none) and number in it.
using BlockKey = std::pair<int, int>;

// A parameter's name without the parts that an adapter adds.
Parts parts_of(const std::string& name) {
  Parts parts = split(name, ".");
  std::erase_if(parts,
                [](const std::string& part) { return part == "lora_A" || part == "lora_B"; });
  return parts;
}

bool is_one_of(const std::string& part, std::initializer_list<const char*> known) {
  return std::find(known.begin(), known.end(), part) != known.end();
}

std::optional<int> number(std::string_view text) {
  constexpr std::size_t kMostDigits = 6;
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  int value = 0;
  for (const char letter : text) {
    if (std::isdigit(static_cast<unsigned char>(letter)) == 0) return std::nullopt;
    value = 10 * value + (letter - '0');
  }
  return value;
}

// `h.3.attn...`, `layers.3.mlp...`, `blocks.3.norm1...`, or a ResNet's `layer2.3.conv1...`. What
// has nothing but a parameter behind the number is a layer in a row of layers, and no block.
std::optional<BlockKey> block_of(const Parts& parts) {
  constexpr std::string_view kStage = "layer";
  for (std::size_t i = 0; i + 3 < parts.size(); ++i) {
    const std::optional<int> index = number(parts[i + 1]);
    if (!index) continue;
    if (is_one_of(parts[i], {"h", "layers", "blocks"})) return BlockKey{0, *index};
    const std::string_view stage = parts[i];
    if (!stage.starts_with(kStage)) continue;
    if (const auto which = number(stage.substr(kStage.size()))) return BlockKey{*which, *index};
  }
  return std::nullopt;
}

bool is_embedding(const Parts& parts) {
  // Only a ResNet has convolutions at the top of a model with blocks.
  if (is_one_of(parts.front(), {"conv1", "bn1"})) return true;
  return std::any_of(parts.begin(), parts.end(), [](const std::string& part) {
    return is_one_of(part, {"wte", "wpe", "embed_tokens", "patch_embed", "cls_token", "pos_embed"});
  });
}

// An mlp (`layers.0`, `layers.1`) or a lenet (`conv1`, ..., `fc3`): one numbered layer after
// another.
bool is_row_of_layers(const std::vector<Parts>& names) {
  return std::all_of(names.begin(), names.end(), [](const Parts& parts) {
    return parts.size() >= 2 && !block_of(parts) &&
           std::isdigit(static_cast<unsigned char>(parts[parts.size() - 2].back())) != 0;
  });
}

std::vector<int> distances_in_row(const std::vector<Parts>& names) {
  std::map<Parts, int> seen;
  std::vector<int> distances;
  for (const Parts& parts : names) {
    const Parts layer(parts.begin(), parts.end() - 1);
    distances.push_back(seen.try_emplace(layer, static_cast<int>(seen.size())).first->second);
  }
  for (int& place : distances) place = static_cast<int>(seen.size()) - 1 - place;
  return distances;
}

// The depth of each block, from 1.
std::map<BlockKey, int> block_depths(const std::vector<Parts>& names) {
  std::map<BlockKey, int> depths;
  for (const Parts& parts : names)
    if (const auto block = block_of(parts)) depths.emplace(*block, 0);
  int next = 1;
  for (auto& [block, depth] : depths) {
    // Frozen blocks of a transformer have no name here, but still a number.
    depth = block.first == 0 ? block.second + 1 : next++;
  }
  return depths;
}

// Of each parameter, how many layers its own is before the head.
std::vector<int> distances_from_head(const std::vector<Parts>& names) {
  if (is_row_of_layers(names)) return distances_in_row(names);
  const std::map<BlockKey, int> blocks = block_depths(names);
  const int head = blocks.empty() ? 1 : blocks.rbegin()->second + 1;
  std::vector<int> distances;
  for (const Parts& parts : names) {
    if (const auto block = block_of(parts))
      distances.push_back(head - blocks.at(*block));
    else
      distances.push_back(is_embedding(parts) ? head : 0);
  }
  return distances;
}

void apply_layer_decay(double decay, const std::vector<std::string>& names,
                       std::vector<GroupSettings>& settings) {
  if (decay == 1 || names.empty()) return;
  std::vector<Parts> all_parts;
  for (const std::string& name : names) all_parts.push_back(parts_of(name));
  const std::vector<int> distances = distances_from_head(all_parts);
  for (std::size_t i = 0; i < names.size(); ++i)
    settings[i].lr_factor *= std::pow(decay, distances[i]);
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
  apply_layer_decay(config.layer_decay, names, settings);
  return settings;
}

}  // namespace trainer::optim

#include "data/tools/inspect_report.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/text.h"

namespace trainer::data {
namespace {

std::string plural(std::size_t count, const std::string& one, const std::string& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

// `line` of each entry, indented; what is beyond `most` is counted.
template <class Entries, class Line>
std::string list(const Entries& entries, std::size_t most, Line&& line) {
  std::string text;
  std::size_t shown = 0;
  for (const auto& entry : entries) {
    if (shown++ == most) break;
    text += "    " + line(entry) + "\n";
  }
  if (entries.size() > most)
    text += "    and " + std::to_string(entries.size() - most) + " more (--json has them all)\n";
  return text;
}

// Characters of UTF-8.
std::size_t length(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string in_columns(const Count& count, std::size_t width) {
  std::array<char, 24> number{};
  std::snprintf(number.data(), number.size(), "%10lld", static_cast<long long>(count.samples));
  return count.name + std::string(width - std::min(width, length(count.name)), ' ') + number.data();
}

std::string table(const std::vector<Count>& counts, std::size_t most) {
  std::size_t width = 8;
  for (std::size_t i = 0; i < std::min(most, counts.size()); ++i)
    width = std::max(width, std::min(length(counts[i].name), std::size_t{60}));
  return list(counts, most, [width](const Count& count) { return in_columns(count, width); });
}

std::string named_with_class(const NamedSample& sample) {
  return sample.name + " (class \"" + sample.class_name + "\")";
}

std::string range(const std::string& what, const Spread& spread) {
  return what + " " + std::to_string(spread.least) + " to " + std::to_string(spread.most) +
         ", median " + std::to_string(spread.median);
}

std::string balance(const std::vector<Count>& classes) {
  const auto fewer = [](const Count& a, const Count& b) { return a.samples < b.samples; };
  const auto least = std::min_element(classes.begin(), classes.end(), fewer);
  const auto most = std::max_element(classes.begin(), classes.end(), fewer);
  if (least->samples == most->samples) return "  all classes have the same size\n";
  std::array<char, 32> ratio{};
  std::snprintf(ratio.data(), ratio.size(), "%.3g",
                static_cast<double>(least->samples) / static_cast<double>(most->samples));
  return "  smallest class " + least->name + " with " + std::to_string(least->samples) +
         ", largest " + most->name + " with " + std::to_string(most->samples) + ": ratio " +
         ratio.data() + "\n";
}

std::string group_line(const SameContent& same) {
  constexpr std::size_t kMost = 5;
  std::string line;
  for (std::size_t i = 0; i < std::min(kMost, same.members.size()); ++i) {
    const SameContent::Member& member = same.members[i];
    line += (i == 0 ? "" : " = ") + member.set + ": " + named_with_class(member.sample);
  }
  if (same.members.size() > kMost)
    line += " = " + std::to_string(same.members.size() - kMost) + " more";
  return line;
}

std::vector<SameContent> with_classes(const std::vector<SameContent>& groups, bool differ) {
  std::vector<SameContent> chosen;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(chosen),
               [differ](const SameContent& same) { return same.classes_differ == differ; });
  return chosen;
}

// Those with different classes first: they are wrong, whatever one trains.
std::string groups_text(const std::vector<SameContent>& groups, const std::string& what,
                        std::size_t most) {
  std::string text;
  for (const bool differ : {true, false}) {
    const std::vector<SameContent> chosen = with_classes(groups, differ);
    if (chosen.empty()) continue;
    text += "  " + what + (differ ? ", in different classes: " : ", in one class: ") +
            plural(chosen.size(), "group", "groups") + "\n" + list(chosen, most, group_line);
  }
  return text;
}

std::string set_text(const Inspection& set, std::size_t most) {
  std::string text = set.name + ": " + set.source + "\n";
  text += "  " + plural(static_cast<std::size_t>(set.samples), "sample", "samples") + ", " +
          human_bytes(static_cast<double>(set.bytes)) + ", " +
          plural(set.classes.size(), "class", "classes") + "\n";
  text += "  classes:\n" + table(set.classes, most) + balance(set.classes);
  if (!set.formats.empty()) {
    text += "  " + range("height", set.height) + "; " + range("width", set.width) + "; " +
            range("pixels", set.pixels) + "\n";
    text += "  formats:\n" + table(set.formats, most);
  }
  if (set.turned > 0)
    text += "  turned by EXIF: " + std::to_string(set.turned) +
            (set.turns_applied ? "" : ", which is not applied (exif_orientation: false)") + "\n";
  if (!set.broken.empty()) {
    text += "  broken: " + std::to_string(set.broken.size()) + "\n" +
            list(set.broken, most, [](const BrokenSample& each) {
              return named_with_class(each.sample) + ": " + each.reason;
            });
  }
  if (!set.misnamed.empty()) {
    text += "  called as another format is: " + std::to_string(set.misnamed.size()) + "\n" +
            list(set.misnamed, most, [](const MisnamedSample& each) {
              return named_with_class(each.sample) + " is " + each.format;
            });
  }
  return text + groups_text(set.duplicates, "equal samples", most);
}

nlohmann::json to_json(const Spread& spread) {
  return {{"min", spread.least}, {"median", spread.median}, {"max", spread.most}};
}

nlohmann::json to_json(const std::vector<Count>& counts) {
  nlohmann::json json = nlohmann::json::array();
  for (const Count& each : counts) json.push_back({{"name", each.name}, {"samples", each.samples}});
  return json;
}

nlohmann::json to_json(const NamedSample& sample) {
  return {{"index", sample.index}, {"name", sample.name}, {"class", sample.class_name}};
}

nlohmann::json to_json(const std::vector<SameContent>& groups) {
  nlohmann::json json = nlohmann::json::array();
  for (const SameContent& same : groups) {
    nlohmann::json members = nlohmann::json::array();
    for (const SameContent::Member& member : same.members) {
      nlohmann::json one = to_json(member.sample);
      one["set"] = member.set;
      members.push_back(std::move(one));
    }
    json.push_back({{"samples", members}, {"classes_differ", same.classes_differ}});
  }
  return json;
}

nlohmann::json to_json(const Inspection& set) {
  nlohmann::json json{{"source", set.source},
                      {"samples", set.samples},
                      {"bytes", set.bytes},
                      {"classes", to_json(set.classes)},
                      {"height", to_json(set.height)},
                      {"width", to_json(set.width)},
                      {"pixels", to_json(set.pixels)},
                      {"formats", to_json(set.formats)},
                      {"turned", set.turned},
                      {"duplicates", to_json(set.duplicates)}};
  json["broken"] = nlohmann::json::array();
  for (const BrokenSample& each : set.broken) {
    json["broken"].push_back(to_json(each.sample));
    json["broken"].back()["reason"] = each.reason;
  }
  json["misnamed"] = nlohmann::json::array();
  for (const MisnamedSample& each : set.misnamed) {
    json["misnamed"].push_back(to_json(each.sample));
    json["misnamed"].back()["format"] = each.format;
  }
  return json;
}

std::size_t empty_classes(const Inspection& set) {
  return static_cast<std::size_t>(std::count_if(
      set.classes.begin(), set.classes.end(), [](const Count& each) { return each.samples == 0; }));
}

}  // namespace

std::vector<std::string> InspectReport::problems() const {
  std::vector<std::string> found;
  const auto add = [&found](const std::string& where, std::size_t count, const std::string& one,
                            const std::string& many) {
    if (count > 0) found.push_back(where + ": " + plural(count, one, many));
  };
  for (const Inspection& set : sets) {
    add(set.name, set.broken.size(), "broken sample", "broken samples");
    add(set.name, empty_classes(set), "class without a sample", "classes without a sample");
    add(set.name, with_classes(set.duplicates, true).size(), "content in different classes",
        "contents in different classes");
  }
  add("train and val", with_classes(in_both, true).size(), "content in different classes",
      "contents in different classes");
  found.insert(found.end(), mismatches.begin(), mismatches.end());
  return found;
}

std::string to_text(const InspectReport& report, std::size_t most) {
  std::string text;
  for (const Inspection& set : report.sets) text += set_text(set, most);
  if (!report.in_both.empty())
    text += "train and val:\n" + groups_text(report.in_both, "equal samples in both", most);
  const std::vector<std::string> problems = report.problems();
  if (problems.empty()) return text + "no problem was found\n";
  text += plural(problems.size(), "problem", "problems") + ":\n";
  for (const std::string& problem : problems) text += "  " + problem + "\n";
  return text;
}

nlohmann::json to_json(const InspectReport& report) {
  nlohmann::json json{{"in_both", to_json(report.in_both)}, {"problems", report.problems()}};
  for (const Inspection& set : report.sets) json["sets"][set.name] = to_json(set);
  return json;
}

}  // namespace trainer::data

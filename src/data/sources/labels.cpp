#include "data/sources/labels.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

// More classes than any model has; labels that are identifiers of something else are above it.
constexpr std::int64_t kMostClasses = std::int64_t{1} << 24;

// nullopt where `text` is no index; a number that is too large for any list of classes is the
// largest there is.
std::optional<std::int64_t> index_in(std::string_view text) {
  if (!is_index(text)) return std::nullopt;
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() ? value : std::numeric_limits<std::int64_t>::max();
}

[[noreturn]] void fail(const std::string& place, const std::string& reason) {
  throw Error(Exit::data, place + ": " + reason);
}

std::string in_quotes(std::string_view text) { return "\"" + printable(text) + "\""; }

using Place = std::function<std::string(std::size_t)>;

// Finds labels among classes with names.
class NamedClasses {
 public:
  NamedClasses(const std::vector<std::string>& names, Integers integers)
      : names_(names), integers_(integers) {
    for (const std::string& name : names)
      by_name_.emplace(name, static_cast<std::int32_t>(by_name_.size()));
  }

  std::optional<std::int32_t> find(const std::string& label) const {
    if (integers_ == Integers::indices_first) {
      const auto index = by_index(label);
      return index ? index : by_name(label);
    }
    const auto index = by_name(label);
    return index ? index : by_index(label);
  }

  std::string why_not(const std::string& label) const {
    if (is_index(label)) {
      return "label " + label + " is outside the " + std::to_string(names_.size()) +
             " classes, whose indices are 0 to " + std::to_string(names_.size() - 1);
    }
    std::string reason = "label " + in_quotes(label) + " is none of the classes";
    const std::string near = nearest(label, names_);
    if (!near.empty()) reason += "; did you mean " + in_quotes(near) + "?";
    return reason;
  }

 private:
  std::optional<std::int32_t> by_name(const std::string& label) const {
    const auto found = by_name_.find(label);
    return found == by_name_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<std::int32_t> by_index(const std::string& label) const {
    const auto index = index_in(label);
    if (!index || *index >= static_cast<std::int64_t>(names_.size())) return std::nullopt;
    return static_cast<std::int32_t>(*index);
  }

  const std::vector<std::string>& names_;
  Integers integers_;
  std::unordered_map<std::string, std::int32_t> by_name_;
};

// Names "0" ... the largest of the texts, all of which are indices.
std::vector<std::string> numbers_up_to_largest(const std::vector<std::string>& texts,
                                               const Place& place) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::int64_t index = *index_in(texts[i]);
    if (index >= kMostClasses)
      fail(place(i), "label " + texts[i] + " is too large to be the index of a class");
    count = std::max(count, index + 1);
  }
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

std::vector<std::string> found_names(const std::vector<std::string>& texts, const Place& place) {
  if (std::all_of(texts.begin(), texts.end(), is_index)) return numbers_up_to_largest(texts, place);
  std::vector<std::string> names = texts;
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

LabelTexts::LabelTexts(std::vector<std::string> texts, std::vector<std::int32_t> samples)
    : texts_(std::move(texts)), samples_(std::move(samples)) {
  for (std::size_t i = 0; i < texts_.size(); ++i)
    known_.emplace(texts_[i], static_cast<std::int32_t>(i));
}

std::int32_t LabelTexts::add(std::string_view text) {
  const auto next = static_cast<std::int32_t>(texts_.size());
  const auto [entry, is_new] = known_.emplace(text, next);
  if (is_new) texts_.emplace_back(text);
  samples_.push_back(entry->second);
  return entry->second;
}

Classes resolve(const LabelTexts& labels, const std::vector<std::string>& names, Integers integers,
                const Place& place) {
  Classes classes;
  classes.names = names.empty() ? found_names(labels.texts(), place) : names;
  // A name that was found is that name, not an index among the others.
  const NamedClasses named(classes.names, names.empty() ? Integers::names_first : integers);
  std::vector<std::int32_t> of_text;
  for (std::size_t i = 0; i < labels.texts().size(); ++i) {
    const auto index = named.find(labels.texts()[i]);
    if (!index) fail(place(i), named.why_not(labels.texts()[i]));
    of_text.push_back(*index);
  }
  classes.labels.reserve(labels.samples().size());
  for (const std::int32_t text : labels.samples())
    classes.labels.push_back(of_text[static_cast<std::size_t>(text)]);
  return classes;
}

void require_distinct(const std::vector<std::string>& names, const std::string& place) {
  std::unordered_set<std::string_view> seen;
  for (const std::string& name : names) {
    if (!seen.insert(name).second) fail(place, "the class " + in_quotes(name) + " is listed twice");
  }
}

void require_samples(const Classes& classes, const std::string& place) {
  std::vector<bool> seen(classes.names.size());
  for (const std::int32_t label : classes.labels) seen[static_cast<std::size_t>(label)] = true;
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return;
  const auto index = static_cast<std::size_t>(missing - seen.begin());
  fail(place, "the class " + in_quotes(classes.names[index]) +
                  " has no samples; add some or take it out of the classes");
}

float checked_weight(double weight, const std::string& written) {
  const auto value = static_cast<float>(weight);
  if (std::isfinite(value) && value >= 0) return value;
  throw Error(Exit::data,
              "the weight " + printable(written) + " is not a finite number of 0 or more");
}

bool is_index(std::string_view text) {
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   [](char c) { return c >= '0' && c <= '9'; });
  return digits && (text.size() == 1 || text[0] != '0');
}

}  // namespace trainer::data

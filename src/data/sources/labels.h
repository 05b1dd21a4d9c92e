// Labels as they are written in lists and archives, and the classes that they stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trainer::data {

// The label of each sample as text, each different text stored once.
class LabelTexts {
 public:
  LabelTexts() = default;
  // What `texts` and `samples` of another gave.
  LabelTexts(std::vector<std::string> texts, std::vector<std::int32_t> samples);

  // The next sample's label. Returns the index of its text: that of `texts().size()` before the
  // call where it is a new one.
  std::int32_t add(std::string_view text);

  // In the order in which they first came.
  const std::vector<std::string>& texts() const { return texts_; }
  // Of each sample, the index of its text.
  const std::vector<std::int32_t>& samples() const { return samples_; }

 private:
  std::vector<std::string> texts_;
  std::vector<std::int32_t> samples_;
  std::unordered_map<std::string, std::int32_t> known_;
};

// What an integer means where classes have names: a list of files may have a class called "3",
// while in archives the convention is that an integer is an index.
enum class Integers { names_first, indices_first };

struct Classes {
  std::vector<std::string> names;
  std::vector<std::int32_t> labels;  // of each sample
};

// The classes of the samples. With `names` (different ones), a label is one of them or an index
// into them. Without, the labels are indices where all are integers of 0 or more (the classes are
// then 0 ... the largest, and called so), else names, and the classes are those found, sorted by
// bytes. Throws Error(data) where a label fits no class: `place`, which gets the index of the
// label's text, says where it stands.
Classes resolve(const LabelTexts& labels, const std::vector<std::string>& names, Integers integers,
                const std::function<std::string(std::size_t text)>& place);

// Throws Error(data), starting with `place`, where a name comes twice.
void require_distinct(const std::vector<std::string>& names, const std::string& place);
// Throws Error(data), starting with `place`, where a class has no sample.
void require_samples(const Classes& classes, const std::string& place);

// A sample's weight, which was `written` so. Throws Error(data) with the reason alone where it is
// not a finite number of 0 or more.
float checked_weight(double weight, const std::string& written);

// Whether `text` is an integer of 0 or more as a program writes it: no sign, no zeros before it.
bool is_index(std::string_view text);

}  // namespace trainer::data

#include "data/sources/text_list.h"

#include <algorithm>
#include <utility>

namespace trainer::data {

void TextList::append(const TextList& other) {
  const std::uint64_t begin = bytes_.size();
  bytes_ += other.bytes_;
  for (const std::uint64_t end : other.ends_) ends_.push_back(begin + end);
}

void TextList::reserve(std::size_t texts, std::size_t bytes) {
  ends_.reserve(texts);
  bytes_.reserve(bytes);
}

void TextList::sort() {
  std::vector<std::string_view> texts;
  texts.reserve(size());
  for (std::size_t i = 0; i < size(); ++i) texts.push_back((*this)[i]);
  std::sort(texts.begin(), texts.end());
  TextList sorted;
  sorted.reserve(size(), bytes_.size());
  for (const std::string_view text : texts) sorted.add(text);
  *this = std::move(sorted);
}

bool TextList::assign(std::string bytes, std::vector<std::uint64_t> ends) {
  const bool fits = std::is_sorted(ends.begin(), ends.end()) &&
                    (ends.empty() ? bytes.empty() : ends.back() == bytes.size());
  if (!fits) return false;
  bytes_ = std::move(bytes);
  ends_ = std::move(ends);
  return true;
}

}  // namespace trainer::data

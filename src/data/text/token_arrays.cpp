#include "data/text/token_arrays.h"

#include <algorithm>
#include <cassert>

namespace trainer::data {

void TokenArrays::append(const TokenBlock& block) {
  const std::int64_t begin = size();
  for (const TokenId id : block.ids) {
    assert(id >= 0 && (wide_ || id <= 0xffff));
    largest_ = std::max(largest_, id);
  }
  if (wide_)
    four_.insert(four_.end(), block.ids.begin(), block.ids.end());
  else
    two_.insert(two_.end(), block.ids.begin(), block.ids.end());
  for (const std::uint64_t end : block.ends)
    ends_.push_back(static_cast<std::uint64_t>(begin) + end);
  append_mask(block, begin);
}

// The mask begins with the first token that is not to be predicted.
void TokenArrays::append_mask(const TokenBlock& block, std::int64_t begin) {
  const bool all = std::find(block.learnt.begin(), block.learnt.end(), 0) == block.learnt.end();
  if (!masked_ && all) return;
  mask_.resize((static_cast<std::size_t>(size()) + 7) / 8, 0);
  const auto set = [this](std::size_t token) {
    mask_[token / 8] = static_cast<std::uint8_t>(mask_[token / 8] | (1U << (token % 8)));
  };
  if (!masked_) {
    for (std::size_t token = 0; token < static_cast<std::size_t>(begin); ++token) set(token);
    masked_ = true;
  }
  for (std::size_t i = 0; i < block.ids.size(); ++i)
    if (all || block.learnt[i] != 0) set(static_cast<std::size_t>(begin) + i);
}

Bytes TokenArrays::tokens() const {
  if (wide_) return {reinterpret_cast<const std::uint8_t*>(four_.data()), 4 * four_.size()};
  return {reinterpret_cast<const std::uint8_t*>(two_.data()), 2 * two_.size()};
}

}  // namespace trainer::data

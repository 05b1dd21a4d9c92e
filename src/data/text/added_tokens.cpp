#include "data/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

std::uint64_t edge(std::uint32_t node, char byte) {
  return std::uint64_t{node} << 8 | static_cast<unsigned char>(byte);
}

// The text may hold bytes that are no UTF-8: what cannot be read is no word and no space.
bool is_word(std::string_view character) {
  if (character.empty() || valid_utf8(character) != character.size()) return false;
  return (CharClasses::get().of(utf8_point(character.data(), character.size())) & kWord) != 0;
}

bool word_before(std::string_view text, std::size_t at) {
  return at > 0 &&
         is_word(text.substr(utf8_last(text.substr(0, at)), at - utf8_last(text.substr(0, at))));
}

bool word_behind(std::string_view text, std::size_t at) {
  return at < text.size() && is_word(text.substr(at, utf8_length(text[at])));
}

// Where the white space before `at` starts.
std::size_t space_before(std::string_view text, std::size_t at) {
  // The valid end of the text, as far back as it is white space: at most three bytes a character.
  while (at > 0) {
    const std::size_t last = utf8_last(text.substr(0, at));
    const std::string_view character = text.substr(last, at - last);
    if (valid_utf8(character) != character.size() || spaces_at_end(character) != 0) break;
    at = last;
  }
  return at;
}

std::size_t space_behind(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  std::size_t count = 0;
  while (count < rest.size()) {
    const std::string_view character = rest.substr(count, utf8_length(rest[count]));
    if (valid_utf8(character) != character.size() || spaces_at_start(character) == 0) break;
    count += character.size();
  }
  return count;
}

}  // namespace

void AddedTokens::add(AddedToken token, std::string_view pattern) {
  std::uint32_t node = 0;
  for (const char byte : pattern) {
    const auto [at, added] =
        edges_.emplace(edge(node, byte), static_cast<std::uint32_t>(ends_.size()));
    if (added) ends_.push_back(-1);
    node = at->second;
  }
  if (pattern.empty()) throw Error(Exit::data, "a token has no text");
  if (ends_[node] >= 0)
    throw Error(Exit::data, "the token \"" + token.content + "\" is there twice");
  ends_[node] = static_cast<std::int32_t>(tokens_.size());
  starts_[static_cast<unsigned char>(pattern.front())] = true;
  tokens_.push_back(std::move(token));
}

std::uint32_t AddedTokens::child(std::uint32_t node, char byte) const {
  const auto at = edges_.find(edge(node, byte));
  return at == edges_.end() ? 0 : at->second;
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!starts_[static_cast<unsigned char>(text[begin])]) continue;
    std::int32_t longest = -1;
    std::size_t end = begin;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      node = child(node, text[at]);
      if (node == 0) break;
      if (ends_[node] < 0) continue;
      longest = ends_[node];
      end = at + 1;
    }
    if (longest >= 0) return Match{begin, end, &tokens_[static_cast<std::size_t>(longest)]};
  }
  return std::nullopt;
}

void AddedTokens::split(std::string_view text, bool special,
                        const std::function<void(std::size_t, std::size_t)>& on_text,
                        const std::function<void(const AddedToken&)>& on_token) const {
  std::size_t done = 0;
  std::size_t from = 0;
  while (const auto match = tokens_.empty() ? std::nullopt : find(text, from)) {
    from = match->end;
    const AddedToken& token = *match->token;
    if (token.special && !special) continue;
    if (token.single_word && (word_before(text, match->begin) || word_behind(text, match->end)))
      continue;
    std::size_t begin = match->begin, end = match->end;
    // What the token before has taken stays with it.
    if (token.lstrip) begin = std::max(space_before(text, begin), done);
    if (token.rstrip) end += space_behind(text, end);
    if (done < begin) on_text(done, begin);
    on_token(token);
    done = end;
  }
  if (done < text.size()) on_text(done, text.size());
}

}  // namespace trainer::data

// Tokens that are looked for in a text before it is split (tokenizer.json's `added_tokens`).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/text/tokenizer.h"

namespace trainer::data {

struct AddedToken {
  std::string content;
  TokenId id = 0;
  bool special = false;
  bool single_word = false;  // only where no word character is beside it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // and behind it
  bool normalized = true;    // looked for in the normalised text
};

// The tokens of one of the two kinds. Read-only after construction.
class AddedTokens {
 public:
  // Throws Error(data) with the reason alone where two have the same text.
  void add(AddedToken token, std::string_view pattern);
  bool empty() const { return tokens_.empty(); }

  // Cuts `text` at the tokens in it: the leftmost, and of those the longest. Calls on_text(begin,
  // end) and on_token(token) in the order of the text. Where `special` is false, special tokens are
  // text, and so is what else could be found in them.
  void split(std::string_view text, bool special,
             const std::function<void(std::size_t, std::size_t)>& on_text,
             const std::function<void(const AddedToken&)>& on_token) const;

 private:
  struct Match {
    std::size_t begin, end;
    const AddedToken* token;
  };
  std::optional<Match> find(std::string_view text, std::size_t from) const;
  std::uint32_t child(std::uint32_t node, char byte) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::int32_t> ends_{-1};                      // of each node of the trie: the token
  std::unordered_map<std::uint64_t, std::uint32_t> edges_;  // node and byte to node
  std::array<bool, 256> starts_{};
};

}  // namespace trainer::data

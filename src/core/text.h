// Small text helpers shared by messages and patterns.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trainer {

// The candidate nearest to `word` by edit distance (a transposition counts as one), or an empty
// string where none is near enough to be a likely misspelling.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

// Whether `text` matches the glob `pattern`: `*` any run of characters, `?` any one character.
bool glob_match(std::string_view pattern, std::string_view text);

// 1536 -> "1.5 KiB"; for messages only.
std::string human_bytes(double bytes);

// 93.4 -> "1m33s"; for messages only.
std::string human_seconds(double seconds);

}  // namespace trainer

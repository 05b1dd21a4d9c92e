// The blocks of an input become tokens on several threads, in order. No torch here.
#pragma once

#include <functional>

#include "data/text/text_input.h"

namespace trainer::data {

// Gets the blocks' tokens in the order of the input; returns whether to go on.
using TakeBlock = std::function<bool(const TextBlock& block, TokenBlock&& tokens)>;

// From `position` on, with `workers` threads (1 at least; the calling thread is one of them). What
// `take` gets does not depend on their number. Where blocks cannot be read, `take` gets those
// before the first of them, and its error is thrown.
void tokenize_blocks(const TextInput& input, const Tokenizer& tokenizer, TextPosition position,
                     int workers, const TakeBlock& take);

// Each code point of the input's documents once, in rising order, as UTF-8. Throws Error(data)
// naming the file where a text is not UTF-8.
std::string alphabet_of(const TextInput& input, int workers);
// The same of one text.
std::string alphabet_of(std::string_view text);

}  // namespace trainer::data

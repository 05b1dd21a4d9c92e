// Cuts a text into the pieces that are encoded by themselves (tokenizer.json's `pre_tokenizer`).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/regex.h"

namespace trainer::data {

// Where a piece stands.
struct Place {
  bool first = false;   // starts where the whole text starts
  bool joined = false;  // goes on directly after bytes that are no UTF-8: nothing is put before it
};

// Receives pieces in their order; a piece is valid during the call only.
class PieceSink {
 public:
  virtual void piece(std::string_view text, Place place) = 0;

 protected:
  ~PieceSink() = default;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // The pieces of `text` (valid UTF-8, not empty); empty ones are left out.
  virtual void split(std::string_view text, Place place, PieceSink& sink) const = 0;
};
using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

// What becomes of the matches that a text is cut at.
enum class Delimiter { isolated, removed, merged_with_previous, merged_with_next, contiguous };

// The end of the first piece of [begin, end), which is not empty: a tokenizer's pattern written
// out.
using PieceEnd = const char* (*)(const char* begin, const char* end);
// The matcher of GPT-2's, Llama 3's (cl100k's) or Qwen 2's pattern, where `pattern` is one of them;
// nullptr otherwise. Same pieces as Regex, several times as fast.
PieceEnd piece_end_of(std::string_view pattern);
// GPT-2's pattern, which ByteLevel with use_regex splits at.
extern const char* const kGpt2Pattern;

std::unique_ptr<PreTokenizer> make_split(const std::string& pattern, Delimiter behaviour,
                                         bool invert);
std::unique_ptr<PreTokenizer> make_literal_split(std::string sought, Delimiter behaviour,
                                                 bool invert);
// Cuts each piece where `end_of` says. For text that its pattern covers without a gap.
std::unique_ptr<PreTokenizer> make_written_out_split(PieceEnd end_of);
std::unique_ptr<PreTokenizer> make_digits(bool individual);
std::unique_ptr<PreTokenizer> make_whitespace();        // \w+|[^\w\s]+
std::unique_ptr<PreTokenizer> make_whitespace_split();  // everything between white space
// Puts a space before what does not start with one (ByteLevel's add_prefix_space).
std::unique_ptr<PreTokenizer> make_prefix_space();

enum class MetaspacePrepend { always, first, never };
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, MetaspacePrepend prepend,
                                             bool split);

// Runs the steps one after the other and hands their pieces to `sink`.
void pre_tokenize(const PreTokenizers& steps, std::string_view text, Place place, PieceSink& sink);

}  // namespace trainer::data

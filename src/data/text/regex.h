// Patterns as tokenizer.json writes them (Oniguruma's syntax), matched with PCRE2.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trainer::data {

struct Found {
  std::size_t begin, end;
};

// Matches valid UTF-8 as Oniguruma does with Unicode 16, whatever PCRE2's version. Used from many
// threads.
class Regex {
 public:
  // Throws Error(data) with the reason alone for what is no pattern, and for what the two libraries
  // may understand differently (\w, ^, named classes, [[...]], folding of several letters, ...).
  explicit Regex(const std::string& pattern);
  ~Regex();
  Regex(Regex&&) noexcept;

  // Searches one text. Of the thread that made it, and one at a time in a thread.
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    // The next match behind the last one; never an empty one.
    std::optional<Found> next();

   private:
    const Regex& regex_;
    std::string_view text_;
    std::string copy_;
    std::size_t at_ = 0;
    void* match_;
  };

 private:
  friend class Search;
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace trainer::data

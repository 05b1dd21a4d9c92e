#include "data/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "core/error.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

// Note [Two libraries, one pattern]: the reference matches with Oniguruma 6.9 (Ruby's syntax,
// Unicode 16), we with PCRE2 (Perl's, Unicode 14 in 10.42). What common tokenizers use means the
// same in both, but for
// - characters that are newer than PCRE2's tables: before matching, each is replaced by one of its
//   category and length that PCRE2 knows (StandIn), so that every \p{..} answers as Unicode 16;
// - U+180E, white space to PCRE2 alone: it is among the replaced;
// - \p{Han}, which PCRE2 10.40 and later take for the script's extensions too: \p{sc:Han} there;
// - (?i:...): one to one folding is the same (U+017F is an s, U+212A a k), but Oniguruma also lets
//   ss match U+00DF: patterns with such pairs are refused.
// All else that differs, or may, is refused rather than guessed.

[[noreturn]] void refuse(const std::string& what) { throw Error(Exit::data, what); }

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string translate() {
    while (!done()) item();
    check_ranges();
    return out_;
  }

 private:
  bool done() const { return at_ == in_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0';
  }
  std::string here() const {
    return " (at byte " + std::to_string(at_) + " of the pattern) is not supported";
  }
  void copy(std::size_t count) {
    out_ += in_.substr(at_, count);
    at_ += count;
  }

  void item() {
    const char c = peek();
    if (folding() && !plain_when_folding(c)) refuse("(?i:...) around more than letters" + here());
    if (c != '|' && !(folding() && std::isalpha(static_cast<unsigned char>(c)))) folded_ = '\0';
    switch (c) {
      case '\\':
        return escape(false);
      case '[':
        return bracket();
      case '(':
        return open();
      case ')':
        folds_.empty() ? refuse("unmatched )" + here()) : folds_.pop_back();
        return copy(1);
      case '{':
        return counted();
      case '^':
      case '$':
        refuse(std::string(1, c) + here());
      case '|':
        folded_ = '\0';
        return copy(1);
      case ']':
      case '}':
        refuse(std::string(1, c) + " by itself" + here());
      default:
        return literal();
    }
  }

  bool folding() const { return !folds_.empty() && folds_.back(); }
  static bool plain_when_folding(char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '\'' || c == '|' || c == ')' ||
           c == '[';
  }

  void literal() {
    const char c = peek();
    if (folding() && std::isalpha(static_cast<unsigned char>(c))) {
      const char lower = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      const std::array<char, 2> pair{folded_, lower};
      for (const char* of_one : {"ss", "st", "ff", "fi", "fl"})
        if (std::equal(pair.begin(), pair.end(), of_one))
          refuse(std::string("(?i:...) around ") + of_one + here());
      folded_ = lower;
    }
    copy(utf8_length(c));
  }

  void open() {
    bool fold = folding();
    if (peek(1) == '?') {
      static constexpr std::array<std::string_view, 6> kGroups{"(?:",  "(?=",  "(?!",
                                                               "(?<=", "(?<!", "(?>"};
      const std::string_view rest = in_.substr(at_);
      const auto known = std::find_if(kGroups.begin(), kGroups.end(), [&](std::string_view group) {
        return rest.starts_with(group);
      });
      if (known != kGroups.end()) {
        copy(known->size());
      } else if (rest.starts_with("(?i:")) {
        fold = true;
        copy(4);
      } else {
        refuse("the group " + std::string(rest.substr(0, 4)) + here());
      }
    } else if (peek(1) == '*') {
      refuse("(*" + here());
    } else {
      copy(1);
    }
    folds_.push_back(fold);
  }

  // {n}, {n,} and {n,m}; the signs behind them mean something else to Ruby.
  void counted() {
    std::size_t end = 1;
    while (std::isdigit(static_cast<unsigned char>(peek(end)))) ++end;
    if (end == 1) refuse("{ without a number" + here());
    if (peek(end) == ',') ++end;
    while (std::isdigit(static_cast<unsigned char>(peek(end)))) ++end;
    if (peek(end) != '}') refuse("{ without }" + here());
    const char sign = peek(end + 1);
    if (sign == '?' || sign == '+' || sign == '*' || sign == '{')
      refuse(std::string("}") + sign + here());
    copy(end + 1);
  }

  void escape(bool inside) {
    const char c = peek(1);
    switch (c) {
      case 'p':
      case 'P':
        return property();
      case 's':
      case 'S':
      case 'd':
      case 'D':
      case 'r':
      case 'n':
      case 't':
      case 'f':
        return copy(2);
      case 'x':
      case 'u':
        return code_point(inside);
      default:
        if (c == '\0' || std::isalnum(static_cast<unsigned char>(c)))
          refuse("\\" + std::string(c == '\0' ? "" : std::string(1, c)) + here());
        if (static_cast<unsigned char>(c) >= 0x80) refuse("an escaped character" + here());
        return copy(2);
    }
  }

  void property() {
    const std::size_t end = in_.find('}', at_);
    if (peek(2) != '{' || end == std::string_view::npos) refuse("\\p without {...}" + here());
    const std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
    static constexpr std::string_view kNames =
        " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C "
        "Cc Cf Co ";
    const bool category = kNames.find(" " + std::string(name) + " ") != std::string_view::npos;
    if (!category && name != "Han") refuse("\\p{" + std::string(name) + "}" + here());
    out_ += in_.substr(at_, 3);
#if PCRE2_MAJOR > 10 || PCRE2_MINOR >= 40
    if (!category) out_ += "sc:";
#endif
    out_ += name;
    out_ += '}';
    at_ = end + 1;
  }

  // \xHH, \x{H..} and \uHHHH, all written as the second.
  void code_point(bool inside) {
    const bool braces = peek(1) == 'x' && peek(2) == '{';
    std::size_t begin = at_ + (braces ? 3 : 2);
    const std::size_t most = braces ? 6 : peek(1) == 'x' ? 2 : 4;
    std::size_t end = begin;
    while (end < in_.size() && end - begin < most &&
           std::isxdigit(static_cast<unsigned char>(in_[end])))
      ++end;
    const bool whole =
        braces ? end > begin && end < in_.size() && in_[end] == '}' : end - begin == most;
    if (!whole) refuse("\\" + std::string(1, peek(1)) + " without its digits" + here());
    const std::string digits(in_.substr(begin, end - begin));
    const auto point = static_cast<char32_t>(std::stoul(digits, nullptr, 16));
    // From \x80 on, Ruby takes it for a byte of a longer character.
    if (!braces && peek(1) == 'x' && point >= 0x80) refuse("\\x" + digits + here());
    out_ += "\\x{" + digits + "}";
    at_ = end + (braces ? 1 : 0);
    if (inside) member(point);
  }

  void bracket() {
    copy(1);
    if (peek() == '^') copy(1);
    if (peek() == ']') refuse("an empty [...]" + here());
    last_.reset();
    open_range_ = false;
    while (peek() != ']') {
      const char c = peek();
      if (done()) refuse("[ without ]" + here());
      if (c == '[') refuse("[ inside [...]" + here());
      if (c == '\\' && folding()) refuse("(?i:...) around more than letters" + here());
      if (c == '&' && peek(1) == '&') refuse("&& inside [...]" + here());
      if (c == '\\') {
        const bool is_class = std::string_view("pPsSdD").find(peek(1)) != std::string_view::npos;
        const char escaped = peek(1);
        if (is_class && open_range_) refuse("a range up to a class" + here());
        escape(true);
        if (is_class) last_.reset();
        if (!is_class && escaped != 'x' && escaped != 'u') member(static_cast<char32_t>(escaped));
      } else if (c == '-' && last_ && peek(1) != ']') {
        open_range_ = true;
        copy(1);
      } else {
        const std::size_t length = utf8_length(c);
        member(utf8_point(in_.data() + at_, length));
        copy(length);
      }
    }
    copy(1);
  }

  // A character of a class, or the end of a range in it.
  void member(char32_t point) {
    if (folding() && (point >= 0x80 || std::isalpha(static_cast<int>(point)) == 0))
      refuse("(?i:...) around more than letters" + here());
    if (open_range_) {
      ranges_.push_back({*last_, point});
      last_.reset();
      open_range_ = false;
    } else {
      ranges_.push_back({point, point});
      last_ = point;
    }
  }

  // A range must not tell a replaced character from the one that stands in for it.
  void check_ranges() const {
    for (const CodeRange& range : ranges_)
      for (const StandIn& replaced : unicode_tables().stand_ins) {
        const bool replaced_in = range.first <= replaced.last && replaced.first <= range.last;
        const bool all_in = range.first <= replaced.first && replaced.last <= range.last;
        const bool stand_in_in =
            range.first <= replaced.stand_in && replaced.stand_in <= range.last;
        if (replaced_in != stand_in_in || replaced_in != all_in)
          refuse("the range " + code_point_name(range.first) + " to " +
                 code_point_name(range.last) +
                 " in [...], which takes in characters from beyond "
                 "Unicode 14, is not supported");
      }
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
  std::vector<bool> folds_;  // of each open group: whether case is ignored
  char folded_ = '\0';       // the letter before, where case is ignored
  std::vector<CodeRange> ranges_;
  std::optional<char32_t> last_;
  bool open_range_ = false;
};

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// Replaces what PCRE2 does not know yet; false where there is nothing of the kind.
bool replace_new_characters(std::string_view text, std::string& copy) {
  const CharClasses& classes = CharClasses::get();
  const auto stand_ins = unicode_tables().stand_ins;
  bool any = false;
  for (std::size_t at = 0, length; at < text.size(); at += length) {
    length = utf8_length(text[at]);
    if (length < 3) continue;
    const char32_t point = utf8_point(text.data() + at, length);
    if ((classes.of(point) & kHasStandIn) == 0) continue;
    if (!any) copy = text;
    any = true;
    const auto entry =
        std::find_if(stand_ins.begin(), stand_ins.end(), [point](const StandIn& replaced) {
          return replaced.first <= point && point <= replaced.last;
        });
    std::string character;
    append_utf8(character, entry->stand_in);
    copy.replace(at, length, character);
  }
  return any;
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(const std::string& pattern) : code_(std::make_unique<Code>()) {
  if (valid_utf8(pattern) != pattern.size()) refuse("the pattern is not UTF-8");
  const std::string translated = Translator(pattern).translate();
  int error = 0;
  std::size_t offset = 0;
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                              PCRE2_UTF | PCRE2_UCP, &error, &offset, context);
  pcre2_compile_context_free(context);
  if (code_->code == nullptr) refuse("the pattern " + pattern + ": " + message_of(error));
  std::uint32_t matches_nothing = 0;
  pcre2_pattern_info(code_->code, PCRE2_INFO_MATCHEMPTY, &matches_nothing);
  if (matches_nothing != 0) refuse("a pattern that may match no character is not supported");
  // Where a machine has no JIT, the interpreter gives the same.
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

Regex::Search::Search(const Regex& regex, std::string_view text)
    : regex_(regex), text_(text), match_(pcre2_match_data_create(1, nullptr)) {
  if (replace_new_characters(text, copy_)) text_ = copy_;
}

Regex::Search::~Search() { pcre2_match_data_free(static_cast<pcre2_match_data*>(match_)); }

std::optional<Found> Regex::Search::next() {
  if (at_ >= text_.size()) return std::nullopt;
  auto* match = static_cast<pcre2_match_data*>(match_);
  const int code = pcre2_match(regex_.code_->code, reinterpret_cast<PCRE2_SPTR>(text_.data()),
                               text_.size(), at_, PCRE2_NO_UTF_CHECK, match, nullptr);
  if (code == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (code < 0)
    throw Error(Exit::data, "the tokenizer's pattern gave up at byte " + std::to_string(at_) +
                                " of a text: " + message_of(code));
  const std::size_t* range = pcre2_get_ovector_pointer(match);
  at_ = range[1];
  return Found{range[0], range[1]};
}

}  // namespace trainer::data

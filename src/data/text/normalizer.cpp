#include "data/text/normalizer.h"

#include <utf8proc.h>

#include <utility>

#include "core/error.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

// Note [Normal forms in stretches]: characters below a limit are left alone by a form and never
// combine with the one before them, so only stretches of others, each with the character before
// it, go to utf8proc. The package's tables are of Unicode 9: what came later is inert to it, and
// ends a stretch (as an unassigned character does: a starter that composes with nothing).
class NormalFormOf : public Normalizer {
 public:
  explicit NormalFormOf(NormalForm form)
      : options_(UTF8PROC_STABLE), limit_(form == NormalForm::nfc ? 0x300 : 0x80) {
    const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
    options_ |= compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    if (form == NormalForm::nfkc || form == NormalForm::nfkd) options_ |= UTF8PROC_COMPAT;
  }

  void apply(std::string_view text, bool, std::string& out) const override {
    std::size_t copied = 0, last = 0;  // `last`: where the character before starts
    bool last_inert = true;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8_length(text[at]);
      const char32_t point = utf8_point(text.data() + at, length);
      const bool inert = is_inert(point);
      if (point < limit_ || inert) {
        last = at;
        last_inert = inert;
        at += length;
        continue;
      }
      const std::size_t begin = last_inert ? at : last;
      const std::size_t end = stretch_end(text, at);
      out += text.substr(copied, begin - copied);
      form(text.substr(begin, end - begin), out);
      copied = last = at = end;
      last_inert = true;
    }
    out += text.substr(copied);
  }

 private:
  static bool is_inert(char32_t point) { return (CharClasses::get().of(point) & kInertChar) != 0; }

  std::size_t stretch_end(std::string_view text, std::size_t at) const {
    while (at < text.size()) {
      const std::size_t length = utf8_length(text[at]);
      const char32_t point = utf8_point(text.data() + at, length);
      if (point < limit_ || is_inert(point)) break;
      at += length;
    }
    return at;
  }

  void form(std::string_view text, std::string& out) const {
    thread_local std::vector<utf8proc_int32_t> points;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
    const auto size = static_cast<utf8proc_ssize_t>(text.size());
    const auto options = static_cast<utf8proc_option_t>(options_);
    // One more for the zero that re-encoding puts at the end.
    points.resize(text.size() + 1);
    const auto room = [] { return static_cast<utf8proc_ssize_t>(points.size() - 1); };
    utf8proc_ssize_t count = utf8proc_decompose(bytes, size, points.data(), room(), options);
    if (count > room()) {
      points.resize(static_cast<std::size_t>(count) + 1);
      count = utf8proc_decompose(bytes, size, points.data(), room(), options);
    }
    if (count >= 0) count = utf8proc_reencode(points.data(), count, options);
    if (count < 0) throw Error(Exit::data, std::string("normalising: ") + utf8proc_errmsg(count));
    out.append(reinterpret_cast<const char*>(points.data()), static_cast<std::size_t>(count));
  }

  int options_;
  char32_t limit_;
};

class Lowercase : public Normalizer {
 public:
  void apply(std::string_view text, bool, std::string& out) const override {
    for (std::size_t at = 0, length; at < text.size(); at += length) {
      length = utf8_length(text[at]);
      append_lower(out, utf8_point(text.data() + at, length));
    }
  }
};

class StripSpaces : public Normalizer {
 public:
  StripSpaces(bool left, bool right) : left_(left), right_(right) {}
  void apply(std::string_view text, bool, std::string& out) const override {
    if (left_) text.remove_prefix(spaces_at_start(text));
    if (right_) text = text.substr(0, spaces_at_end(text));
    out += text;
  }

 private:
  bool left_, right_;
};

class Prepend : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string_view text, bool joined, std::string& out) const override {
    if (!joined && !text.empty()) out += prefix_;
    out += text;
  }

 private:
  std::string prefix_;
};

template <typename Sought>
class Replace : public Normalizer {
 public:
  Replace(Sought sought, std::string content)
      : sought_(std::move(sought)), content_(std::move(content)) {}
  void apply(std::string_view text, bool, std::string& out) const override {
    replace_all(text, sought_, content_, out);
  }

 private:
  Sought sought_;
  std::string content_;
};

}  // namespace

std::unique_ptr<Normalizer> make_normal_form(NormalForm form) {
  return std::make_unique<NormalFormOf>(form);
}
std::unique_ptr<Normalizer> make_lowercase() { return std::make_unique<Lowercase>(); }
std::unique_ptr<Normalizer> make_strip(bool left, bool right) {
  return std::make_unique<StripSpaces>(left, right);
}
std::unique_ptr<Normalizer> make_prepend(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}
std::unique_ptr<Normalizer> make_replace(std::string sought, std::string content) {
  return std::make_unique<Replace<std::string>>(std::move(sought), std::move(content));
}
std::unique_ptr<Normalizer> make_replace(Regex sought, std::string content) {
  return std::make_unique<Replace<Regex>>(std::move(sought), std::move(content));
}

void replace_all(std::string_view text, std::string_view sought, std::string_view content,
                 std::string& out) {
  std::size_t copied = 0;
  for (std::size_t at; (at = text.find(sought, copied)) != std::string_view::npos;) {
    out += text.substr(copied, at - copied);
    out += content;
    copied = at + sought.size();
  }
  out += text.substr(copied);
}

void replace_all(std::string_view text, const Regex& sought, std::string_view content,
                 std::string& out) {
  std::size_t copied = 0;
  Regex::Search search(sought, text);
  while (const auto found = search.next()) {
    out += text.substr(copied, found->begin - copied);
    out += content;
    copied = found->end;
  }
  out += text.substr(copied);
}

}  // namespace trainer::data

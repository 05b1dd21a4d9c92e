#include "data/text/pretokenizer.h"

#include <optional>
#include <utility>

#include "data/text/normalizer.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

struct Span {
  std::size_t begin, end;
  bool match;
};

// The spans of a text in their order, without gaps, as `next` finds the matches.
template <typename Next>
void cover(std::size_t size, Next&& next, bool invert, std::vector<Span>& spans) {
  std::size_t at = 0;
  while (const std::optional<Found> found = next()) {
    if (found->begin > at) spans.push_back({at, found->begin, invert});
    spans.push_back({found->begin, found->end, !invert});
    at = found->end;
  }
  if (at < size) spans.push_back({at, size, invert});
}

void emit(std::string_view text, std::size_t begin, std::size_t end, Place place, PieceSink& sink) {
  if (end > begin) sink.piece(text.substr(begin, end - begin), begin == 0 ? place : Place{});
}

// Joins neighbours where `joins(before, span)`, in the order of the text.
template <typename Joins>
void emit_joined(const std::vector<Span>& spans, std::string_view text, Place place, Joins&& joins,
                 PieceSink& sink) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= spans.size(); ++i) {
    if (i < spans.size() && joins(spans[i - 1], spans[i])) continue;
    emit(text, spans[begin].begin, spans[i - 1].end, place, sink);
    begin = i;
  }
}

void emit_spans(const std::vector<Span>& spans, Delimiter behaviour, std::string_view text,
                Place place, PieceSink& sink) {
  switch (behaviour) {
    case Delimiter::isolated:
      for (const Span& span : spans) emit(text, span.begin, span.end, place, sink);
      return;
    case Delimiter::removed:
      for (const Span& span : spans)
        if (!span.match) emit(text, span.begin, span.end, place, sink);
      return;
    case Delimiter::contiguous:
      return emit_joined(
          spans, text, place, [](const Span& a, const Span& b) { return a.match == b.match; },
          sink);
    case Delimiter::merged_with_previous:
      return emit_joined(
          spans, text, place, [](const Span& a, const Span& b) { return !a.match && b.match; },
          sink);
    case Delimiter::merged_with_next:
      return emit_joined(
          spans, text, place, [](const Span& a, const Span& b) { return a.match && !b.match; },
          sink);
  }
}

// A split at what `Matches` finds: Matches(text) is called for a text, then as next().
template <typename Pattern, typename Search>
class Split : public PreTokenizer {
 public:
  Split(Pattern pattern, Delimiter behaviour, bool invert)
      : pattern_(std::move(pattern)), behaviour_(behaviour), invert_(invert) {}
  void split(std::string_view text, Place place, PieceSink& sink) const override {
    Search search(pattern_, text);
    // Each span a piece, where it stands: no list of them.
    if (behaviour_ == Delimiter::isolated) {
      std::size_t at = 0;
      while (const auto found = search.next()) {
        emit(text, at, found->begin, place, sink);
        emit(text, found->begin, found->end, place, sink);
        at = found->end;
      }
      return emit(text, at, text.size(), place, sink);
    }
    std::vector<Span> spans;
    cover(
        text.size(), [&search] { return search.next(); }, invert_, spans);
    emit_spans(spans, behaviour_, text, place, sink);
  }

 private:
  Pattern pattern_;
  Delimiter behaviour_;
  bool invert_;
};

class LiteralSearch {
 public:
  LiteralSearch(const std::string& sought, std::string_view text) : sought_(sought), text_(text) {}
  std::optional<Found> next() {
    const std::size_t at = sought_.empty() ? std::string_view::npos : text_.find(sought_, at_);
    if (at == std::string_view::npos) return std::nullopt;
    at_ = at + sought_.size();
    return Found{at, at_};
  }

 private:
  const std::string& sought_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// Single characters of a class.
class ClassSearch {
 public:
  ClassSearch(std::uint8_t bits, std::string_view text) : bits_(bits), text_(text) {}
  std::optional<Found> next() {
    while (at_ < text_.size()) {
      const std::size_t begin = at_;
      const std::size_t length = utf8_length(text_[begin]);
      at_ += length;
      if ((CharClasses::get().of(utf8_point(text_.data() + begin, length)) & bits_) != 0)
        return Found{begin, at_};
    }
    return std::nullopt;
  }

 private:
  std::uint8_t bits_;
  std::string_view text_;
  std::size_t at_ = 0;
};

// Runs of word characters, and runs of others that are no white space.
class Whitespace : public PreTokenizer {
 public:
  void split(std::string_view text, Place place, PieceSink& sink) const override {
    std::size_t begin = 0;
    Kind kind = Kind::space;
    for (std::size_t at = 0, length; at < text.size(); at += length) {
      length = utf8_length(text[at]);
      const Kind next = kind_of(utf8_point(text.data() + at, length));
      if (next == kind) continue;
      if (kind != Kind::space) emit(text, begin, at, place, sink);
      kind = next;
      begin = at;
    }
    if (kind != Kind::space) emit(text, begin, text.size(), place, sink);
  }

 private:
  enum class Kind { space, word, other };
  static Kind kind_of(char32_t point) {
    const std::uint8_t bits = CharClasses::get().of(point);
    return (bits & kWord) != 0 ? Kind::word : (bits & kSpace) != 0 ? Kind::space : Kind::other;
  }
};

class WrittenOut : public PreTokenizer {
 public:
  explicit WrittenOut(PieceEnd end_of) : end_of_(end_of) {}
  void split(std::string_view text, Place place, PieceSink& sink) const override {
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
      const char* const next = end_of_(at, end);
      sink.piece({at, static_cast<std::size_t>(next - at)}, at == text.data() ? place : Place{});
      at = next;
    }
  }

 private:
  PieceEnd end_of_;
};

class PrefixSpace : public PreTokenizer {
 public:
  void split(std::string_view text, Place place, PieceSink& sink) const override {
    if (place.joined || text.front() == ' ') return sink.piece(text, place);
    std::string copy;
    copy.reserve(text.size() + 1);
    copy += ' ';
    copy += text;
    sink.piece(copy, place);
  }
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, MetaspacePrepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}

  void split(std::string_view text, Place place, PieceSink& sink) const override {
    std::string copy;
    copy.reserve(text.size() + text.size() / 2);
    if (prepends(text, place)) copy += replacement_;
    replace_all(text, " ", replacement_, copy);
    if (!split_) return sink.piece(copy, place);
    std::size_t begin = 0;
    while (begin < copy.size()) {
      const std::size_t next = copy.find(replacement_, begin + 1);
      const std::size_t end = next == std::string::npos ? copy.size() : next;
      emit(copy, begin, end, place, sink);
      begin = end;
    }
  }

 private:
  bool prepends(std::string_view text, Place place) const {
    if (place.joined || text.front() == ' ' || text.starts_with(replacement_)) return false;
    return prepend_ == MetaspacePrepend::always ||
           (prepend_ == MetaspacePrepend::first && place.first);
  }

  std::string replacement_;
  MetaspacePrepend prepend_;
  bool split_;
};

// Hands the pieces of a step to the next one.
class StepSink final : public PieceSink {
 public:
  StepSink(const PreTokenizers& steps, std::size_t next, PieceSink& last)
      : steps_(steps), next_(next), last_(last) {}
  void piece(std::string_view text, Place place) override {
    if (next_ == steps_.size()) return last_.piece(text, place);
    if (next_ + 1 == steps_.size()) return steps_[next_]->split(text, place, last_);
    StepSink sink(steps_, next_ + 1, last_);
    steps_[next_]->split(text, place, sink);
  }

 private:
  const PreTokenizers& steps_;
  std::size_t next_;
  PieceSink& last_;
};

}  // namespace

std::unique_ptr<PreTokenizer> make_split(const std::string& pattern, Delimiter behaviour,
                                         bool invert) {
  // These patterns leave no gap: inverted or not, each match is a piece, unless it is dropped.
  const bool whole =
      behaviour == Delimiter::isolated || (behaviour == Delimiter::removed && invert);
  if (const PieceEnd end_of = piece_end_of(pattern); end_of != nullptr && whole)
    return make_written_out_split(end_of);
  return std::make_unique<Split<Regex, Regex::Search>>(Regex(pattern), behaviour, invert);
}
std::unique_ptr<PreTokenizer> make_literal_split(std::string sought, Delimiter behaviour,
                                                 bool invert) {
  return std::make_unique<Split<std::string, LiteralSearch>>(std::move(sought), behaviour, invert);
}
std::unique_ptr<PreTokenizer> make_written_out_split(PieceEnd end_of) {
  return std::make_unique<WrittenOut>(end_of);
}
std::unique_ptr<PreTokenizer> make_digits(bool individual) {
  return std::make_unique<Split<std::uint8_t, ClassSearch>>(
      std::uint8_t{kNumericChar}, individual ? Delimiter::isolated : Delimiter::contiguous, false);
}
std::unique_ptr<PreTokenizer> make_whitespace() { return std::make_unique<Whitespace>(); }
std::unique_ptr<PreTokenizer> make_whitespace_split() {
  return std::make_unique<Split<std::uint8_t, ClassSearch>>(std::uint8_t{kSpace},
                                                            Delimiter::removed, false);
}
std::unique_ptr<PreTokenizer> make_prefix_space() { return std::make_unique<PrefixSpace>(); }
std::unique_ptr<PreTokenizer> make_metaspace(std::string replacement, MetaspacePrepend prepend,
                                             bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), prepend, split);
}

void pre_tokenize(const PreTokenizers& steps, std::string_view text, Place place, PieceSink& sink) {
  if (text.empty()) return;
  StepSink first(steps, 0, sink);
  first.piece(text, place);
}

}  // namespace trainer::data

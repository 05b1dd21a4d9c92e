// parse_yaml: the only place that sees yaml-cpp. Its event interface is used, not its nodes: events
// show duplicate keys, quoting and the place of everything.
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "config/node.h"

namespace trainer::config {
namespace {

constexpr std::size_t kLargestText = 1 << 20;
constexpr std::size_t kDeepest = 64;
constexpr std::size_t kMostNodes = 100'000;
constexpr std::size_t kMostKeys = 1000;  // of one map: finding duplicates is quadratic

// A mistake after which the document can't be followed any further.
struct Refused {
  Place place;
  std::string message;
};

bool continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// The lines of a text, for columns in characters and for hints about a line.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    starts_.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') starts_.push_back(i + 1);
    if (std::none_of(text.begin(), text.end(), continuation)) return;
    continuations_.reserve(text.size() + 1);
    continuations_.push_back(0);
    for (const char c : text)
      continuations_.push_back(continuations_.back() + (continuation(c) ? 1U : 0U));
  }
  std::string_view line(int index) const {  // from 0
    const std::size_t start = start_of(index);
    return text_.substr(start, text_.find('\n', start) - start);
  }
  // Column from 1 in characters of a column from 0 in bytes.
  int column(int line_index, int bytes) const {
    bytes = std::max(bytes, 0);
    if (continuations_.empty()) return bytes + 1;
    const std::size_t start = start_of(line_index);
    const std::size_t end = std::min(start + static_cast<std::size_t>(bytes), text_.size());
    return bytes - static_cast<int>(continuations_[end] - continuations_[start]) + 1;
  }
  Place place_at(std::size_t offset, int source) const {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
    const auto index = static_cast<int>(next - starts_.begin()) - 1;
    return Place{source, index + 1, column(index, static_cast<int>(offset - start_of(index)))};
  }

 private:
  // The end of the text for a line that it does not have.
  std::size_t start_of(int index) const {
    const auto i = static_cast<std::size_t>(std::max(index, 0));
    return i < starts_.size() ? starts_[i] : text_.size();
  }

  std::string_view text_;
  std::vector<std::size_t> starts_;
  // Continuation bytes of UTF-8 before each byte; empty where there are none.
  std::vector<std::uint32_t> continuations_;
};

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 where it is none (Unicode
// standard, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto within = [&](std::size_t i, unsigned low, unsigned high) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80;
    const unsigned high = first == 0xED ? 0x9F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80;
    const unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return within(1, low, high) && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

// What must hold of the bytes before yaml-cpp sees them. It takes byte 4 for the end of its input,
// and guesses UTF-16 and UTF-32.
void check_bytes(std::string_view text, const Lines& lines, int source) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f)
      throw Refused{lines.place_at(i, source), "control character " + quote(text.substr(i, 1)) +
                                                   "; an experiment file is plain text in UTF-8"};
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) throw Refused{lines.place_at(i, source), "not UTF-8; save the file in UTF-8"};
    i += length;
  }
}

class Builder : public YAML::EventHandler {
 public:
  Builder(const Lines& lines, int source, bool with_lines, Problems& problems)
      : lines_(lines), source_(source), with_lines_(with_lines), problems_(problems) {}

  Node take_root() { return std::move(root_); }

  Place place(const YAML::Mark& mark) const {
    if (!with_lines_) return Place{source_, 0, 0};
    const int line = std::max(mark.line, 0);
    return Place{source_, line + 1, lines_.column(line, mark.column)};
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.place = place(mark);
    finish(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = Node::plain(value);
    node.place = place(mark);
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!node.quoted) check_tag(tag, node.place);
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      throw Refused{place(mark), "the alias stands inside its own anchor"};
    count(found->second.size, place(mark));
    Node copy = found->second.node;
    copy.place = place(mark);
    finish(std::move(copy), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    std::size_t first_node = 0;
    std::optional<Node> key;  // of a map, once it is read
  };
  struct Anchored {
    Node node;
    std::size_t size = 0;
  };

  void check_tag(const std::string& tag, const Place& where) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    problems_.add(where, path(), "tags are not supported; remove " + quote(tag));
  }

  void count(std::size_t nodes, const Place& where) {
    nodes_ += nodes;
    if (nodes_ > kMostNodes)
      throw Refused{where, "more than 100000 values; an experiment file is smaller than that"};
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    Frame frame;
    frame.node.kind = kind;
    frame.node.place = place(mark);
    frame.anchor = anchor;
    frame.first_node = nodes_;
    check_tag(tag, frame.node.place);
    if (stack_.size() >= kDeepest)
      throw Refused{frame.node.place, "nested more than 64 levels deep"};
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    finish(std::move(frame.node), frame.anchor, nodes_ - frame.first_node);
  }

  void finish(Node node, YAML::anchor_t anchor, std::size_t inner = 0) {
    count(1, node.place);
    if (anchor != 0) anchors_[anchor] = Anchored{node, inner + 1};
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& parent = stack_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      parent.key = std::move(node);
    } else {
      Node key = std::move(*parent.key);
      parent.key.reset();
      add_entry(parent.node, std::move(key), std::move(node));
    }
  }

  void add_entry(Node& map, Node key, Node value) {
    if (key.kind != Node::Kind::scalar) {
      problems_.add(key.place, path(), "a key is a word, found " + describe(key));
      return;
    }
    if (const Entry* first = map.find(key.text)) {
      std::string message = "duplicate key";
      if (with_lines_) message += "; the first is in line " + std::to_string(first->key_place.line);
      problems_.add(key.place, join_path(path(), key.text), message + ", keep one of them");
      return;
    }
    if (map.entries.size() >= kMostKeys) throw Refused{key.place, "a map of more than 1000 keys"};
    map.entries.push_back(Entry{std::move(key.text), key.place, std::move(value)});
  }

  // Of the container that is open now.
  std::string path() const {
    std::string result;
    for (std::size_t i = 0; i + 1 < stack_.size(); ++i) {
      const Frame& frame = stack_[i];
      result =
          join_path(result, frame.key ? frame.key->text : std::to_string(frame.node.items.size()));
    }
    return result;
  }

  const Lines& lines_;
  int source_;
  bool with_lines_;
  Problems& problems_;
  Node root_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t nodes_ = 0;
};

// Stops at the start of another document.
class SecondDocument : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override { throw mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

// yaml-cpp's complaint with what most often is behind it.
std::string syntax_message(const YAML::ParserException& error, const Lines& lines) {
  std::string message = "not valid YAML: " + error.msg;
  const std::string_view line = lines.line(error.mark.line);
  const std::string_view indent = line.substr(0, line.find_first_not_of(" \t"));
  if (indent.find('\t') != std::string_view::npos)
    return message + "; the line is indented with a tab, use spaces";
  if (line.find("${") != std::string_view::npos)
    return message + "; inside {...} and [...] a value with ${...} needs quotes: \"${NAME}\"";
  return message;
}

void parse_documents(std::string_view text, const Lines& lines, Builder& builder,
                     Problems& problems, Node& root) {
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    root = builder.take_root();
    SecondDocument second;
    parser.HandleNextDocument(second);
  } catch (const YAML::Mark& mark) {
    problems.add(builder.place(mark), "",
                 "a second document starts here; a file holds one experiment");
  } catch (const YAML::ParserException& error) {
    throw Refused{builder.place(error.mark), syntax_message(error, lines)};
  } catch (const std::exception& error) {
    throw Refused{builder.place(YAML::Mark()), std::string("not valid YAML: ") + error.what()};
  }
}

}  // namespace

bool parse_yaml(std::string_view text, int source, bool lines, Node& root, Problems& problems) {
  const Lines line_index(text);
  try {
    if (text.size() > kLargestText)
      throw Refused{Place{source, 1, 1}, "larger than 1 MiB; is this an experiment file?"};
    check_bytes(text, line_index, source);
    Builder builder(line_index, source, lines, problems);
    parse_documents(text, line_index, builder, problems, root);
  } catch (Refused& refused) {
    if (!lines) refused.place = Place{source, 0, 0};
    problems.add(refused.place, "", refused.message);
    return false;
  }
  return true;
}

}  // namespace trainer::config

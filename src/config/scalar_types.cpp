// The types of single values: numbers, texts, words, lengths, sizes, devices.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "config/declare.h"
#include "config/scalar.h"
#include "config/schema.h"

namespace trainer::config {
namespace {

// A plain scalar, or one whose type the field decides because it held ${...}.
bool typed(const Node& node) {
  return node.kind == Node::Kind::scalar && (!node.quoted || node.expanded);
}

bool number_like(const Node& node) {
  const ScalarKind kind = classify(node.text);
  return kind == ScalarKind::integer || kind == ScalarKind::number;
}

std::string range_phrase(const std::string& noun, const Range& range) {
  const bool low = std::isfinite(range.low);
  const bool high = std::isfinite(range.high);
  if (!low && !high) return noun;
  const std::string lowest = format_number(range.low);
  const std::string highest = format_number(range.high);
  if (!high) return noun + (range.above ? " above " : " of at least ") + lowest;
  if (!range.above && !range.below) return noun + " from " + lowest + " to " + highest;
  return noun + (range.above ? " above " : " of at least ") + lowest +
         (range.below ? " and below " : " and at most ") + highest;
}

// Why a scalar that should be a number is none, where the reason is a known trap.
std::string number_hint(const Node& node) {
  if (node.kind != Node::Kind::scalar) return {};
  const ScalarKind kind = classify(node.text);
  if (!typed(node)) return number_like(node) ? "; remove the quotes" : "";
  if (kind == ScalarKind::not_finite) return "; infinity and nan are no settings";
  if (kind == ScalarKind::leading_zero)
    return "; a leading zero means octal to some YAML readers, write the number without it";
  std::string stripped = node.text;
  std::erase_if(stripped, [](char c) { return c == '_' || c == ','; });
  const ScalarKind without = classify(stripped);
  if (stripped != node.text && (without == ScalarKind::integer || without == ScalarKind::number))
    return "; write the digits without separators and the fraction after a point";
  if (kind == ScalarKind::text && node.text.size() > 1) {
    const ScalarKind digits = classify(node.text.substr(0, node.text.size() - 1));
    if ((digits == ScalarKind::integer || digits == ScalarKind::number) &&
        std::string("kKMG").find(node.text.back()) != std::string::npos)
      return "; K, M and G are for lengths only, write the number out";
  }
  return {};
}

class Boolean : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (typed(node) && classify(node.text) == ScalarKind::boolean) {
      *static_cast<bool*>(value) = node.text[0] == 't' || node.text[0] == 'T';
      return;
    }
    reader.expected(node, expects(), hint(node));
  }
  Node write(const void* value) const override {
    return Node::plain(*static_cast<const bool*>(value) ? "true" : "false");
  }
  Json schema(Schema&) const override { return or_variable({{"type", "boolean"}}); }
  std::string expects() const override { return "true or false"; }

 private:
  static std::string hint(const Node& node) {
    if (node.kind != Node::Kind::scalar) return {};
    std::string lower = node.text;
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    if (lower == "yes" || lower == "on" || lower == "y" || lower == "1") return "; write true";
    if (lower == "no" || lower == "off" || lower == "n" || lower == "0") return "; write false";
    if (lower == "true" || lower == "false")
      return typed(node) ? "; write it in small letters" : "; remove the quotes";
    return {};
  }
};

class Number : public Type {
 public:
  explicit Number(const Range& range) : range_(range) {}
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (typed(node) && number_like(node)) {
      const double number = parse_number(node.text);
      const bool low = range_.above ? number > range_.low : number >= range_.low;
      const bool high = range_.below ? number < range_.high : number <= range_.high;
      if (std::isfinite(number) && low && high) {
        *static_cast<double*>(value) = number;
        return;
      }
    }
    reader.expected(node, expects(), number_hint(node));
  }
  Node write(const void* value) const override {
    return Node::plain(format_number(*static_cast<const double*>(value)));
  }
  Json schema(Schema&) const override {
    Json json{{"type", "number"}};
    if (std::isfinite(range_.low)) json[range_.above ? "exclusiveMinimum" : "minimum"] = range_.low;
    if (std::isfinite(range_.high))
      json[range_.below ? "exclusiveMaximum" : "maximum"] = range_.high;
    return or_variable(std::move(json));
  }
  std::string expects() const override { return range_phrase("a number", range_); }

 private:
  Range range_;
};

// int64 or uint64; both ranges fit into `low_` (int64) and `high_` (uint64).
class WholeNumber : public Type {
 public:
  WholeNumber(std::int64_t low, std::uint64_t high, bool is_signed)
      : low_(low), high_(high), signed_(is_signed) {}
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (typed(node) && classify(node.text) == ScalarKind::integer && store(node.text, value))
      return;
    reader.expected(node, expects(), hint(node));
  }
  Node write(const void* value) const override {
    return Node::plain(signed_ ? std::to_string(*static_cast<const std::int64_t*>(value))
                               : std::to_string(*static_cast<const std::uint64_t*>(value)));
  }
  Json schema(Schema&) const override {
    return or_variable({{"type", "integer"}, {"minimum", low_}, {"maximum", high_}});
  }
  std::string expects() const override {
    return "an integer from " + std::to_string(low_) + " to " + std::to_string(high_);
  }

 private:
  bool store(std::string_view text, void* value) const {
    const Integer integer = parse_integer(text);
    if (integer.overflow) return false;
    constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (integer.negative && integer.magnitude > kLargest) return false;
    if (integer.negative ? -static_cast<std::int64_t>(integer.magnitude) < low_
                         : integer.magnitude > high_ ||
                               (low_ > 0 && integer.magnitude < static_cast<std::uint64_t>(low_)))
      return false;
    if (signed_) {
      const auto magnitude = static_cast<std::int64_t>(integer.magnitude);
      *static_cast<std::int64_t*>(value) = integer.negative ? -magnitude : magnitude;
    } else {
      *static_cast<std::uint64_t*>(value) = integer.magnitude;
    }
    return true;
  }

  static std::string hint(const Node& node) {
    if (typed(node) && classify(node.text) == ScalarKind::number) {
      const double value = parse_number(node.text);
      if (value == std::floor(value) && std::fabs(value) < 1e15)
        return "; write " + std::to_string(static_cast<std::int64_t>(value));
    }
    return number_hint(node);
  }

  std::int64_t low_;
  std::uint64_t high_;
  bool signed_;
};

class OneOfIntegers : public Type {
 public:
  explicit OneOfIntegers(std::vector<std::int64_t> values) : values_(std::move(values)) {}
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (typed(node) && classify(node.text) == ScalarKind::integer) {
      const Integer integer = parse_integer(node.text);
      for (const std::int64_t one : values_)
        if (!integer.negative && !integer.overflow &&
            integer.magnitude == static_cast<std::uint64_t>(one)) {
          *static_cast<std::int64_t*>(value) = one;
          return;
        }
    }
    reader.expected(node, expects(), number_hint(node));
  }
  Node write(const void* value) const override {
    return Node::plain(std::to_string(*static_cast<const std::int64_t*>(value)));
  }
  Json schema(Schema&) const override { return or_variable({{"enum", values_}}); }
  std::string expects() const override {
    std::string all;
    for (const std::int64_t one : values_) all += (all.empty() ? "" : ", ") + std::to_string(one);
    return "one of " + all;
  }

 private:
  std::vector<std::int64_t> values_;  // not negative
};

class ByteSize : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (node.kind != Node::Kind::scalar) return reader.expected(node, expects());
    if (!typed(node) && number_like(node))
      return reader.expected(node, expects(), number_hint(node));
    const ParsedSize parsed = parse_size(node.text);
    if (!parsed.bytes) return reader.expected(node, expects(), "; " + parsed.problem);
    *static_cast<std::int64_t*>(value) = *parsed.bytes;
  }
  Node write(const void* value) const override {
    return Node::plain(format_size(*static_cast<const std::int64_t*>(value)));
  }
  Json schema(Schema&) const override {
    Json bytes{
        {"type", "integer"}, {"minimum", 1}, {"maximum", std::numeric_limits<std::int64_t>::max()}};
    Json with_unit{{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)? *([kMGT]B|[KMGT]iB)$"}};
    return or_variable(any_of({std::move(bytes), std::move(with_unit)}));
  }
  std::string expects() const override { return "a size such as 512MiB"; }
};

class Text : public Type {
 public:
  enum class Content { line, folder, anything };
  Text(std::size_t longest, Content content) : longest_(longest), content_(content) {}
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (node.kind != Node::Kind::scalar) return reader.expected(node, expects());
    if (!node.quoted && !node.expanded && classify(node.text) != ScalarKind::text)
      return reader.expected(node, expects(), "; text that looks like something else needs quotes");
    if (!fits(node.text)) return reader.expected(node, expects());
    *static_cast<std::string*>(value) = node.text;
  }
  // ${...} is written so that it is not expanded again.
  Node write(const void* value) const override {
    std::string text = *static_cast<const std::string*>(value);
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3))
      text.insert(at, 1, '$');
    return Node::string(std::move(text));
  }
  Json schema(Schema&) const override {
    Json json{{"type", "string"}, {"minLength", 1}, {"maxLength", longest_}};
    if (content_ == Content::anything) json["minLength"] = 0;
    if (content_ != Content::folder) return json;
    json["pattern"] = "^[A-Za-z0-9_-][A-Za-z0-9._-]*$";
    return or_variable(std::move(json));
  }
  std::string expects() const override {
    if (content_ == Content::folder)
      return "a name of letters, digits, \"_\", \"-\" and \".\" that does not start with \".\"";
    return "text";
  }

 private:
  bool fits(const std::string& text) const {
    if (text.size() > longest_) return false;
    if (content_ == Content::anything) return true;
    if (text.empty()) return false;
    const auto control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f;
    };
    if (std::any_of(text.begin(), text.end(), control)) return false;
    const auto safe = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '.' || c == '_' || c == '-';
    };
    return content_ != Content::folder ||
           (text[0] != '.' && std::all_of(text.begin(), text.end(), safe));
  }

  std::size_t longest_;
  Content content_;
};

class Choice : public Type {
 public:
  Choice(std::vector<std::string> names, std::function<int(const void*)> get,
         std::function<void(void*, int)> set)
      : names_(std::move(names)), get_(std::move(get)), set_(std::move(set)) {}
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    const auto found = node.kind == Node::Kind::scalar
                           ? std::find(names_.begin(), names_.end(), node.text)
                           : names_.end();
    if (found != names_.end()) return set_(value, static_cast<int>(found - names_.begin()));
    const std::string near = suggestion(node.text, names_);
    reader.expected(node, expects(), near.starts_with("; did") ? near : "");
  }
  Node write(const void* value) const override {
    return Node::string(names_[static_cast<std::size_t>(get_(value))]);
  }
  Json schema(Schema&) const override { return or_variable({{"enum", names_}}); }
  std::string expects() const override {
    std::string all;
    for (const std::string& name : names_) all += (all.empty() ? "" : ", ") + name;
    return names_.size() == 1 ? all : "one of " + all;
  }

 private:
  std::vector<std::string> names_;
  std::function<int(const void*)> get_;
  std::function<void(void*, int)> set_;
};

class LengthType : public Type {
 public:
  LengthType(Zero zero, Times times) : zero_(zero), times_(times) {}
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    if (node.kind != Node::Kind::scalar) return reader.expected(node, expects());
    const ParsedLength parsed = parse_length(node.text);
    if (!parsed.length) return reader.expected(node, expects(), "; " + parsed.problem);
    if (parsed.length->value == 0 && zero_ == Zero::refused)
      return reader.expected(node, expects(), "; it has to be more than 0");
    if (parsed.length->unit == Length::Unit::seconds && times_ == Times::refused)
      return reader.expected(node, expects(), "; a time does not fix the learning rate of a step");
    *static_cast<Length*>(value) = *parsed.length;
  }
  Node write(const void* value) const override {
    return Node::plain(format_length(*static_cast<const Length*>(value)));
  }
  Json schema(Schema&) const override {
    const std::string counts = "[kKMG]? *(steps?|epochs?|samples?|tokens?)";
    const std::string times = times_ == Times::allowed ? "| *(s|min|h|d)" : "";
    return or_variable(
        {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]+)?(" + counts + times + ")$"}});
  }
  std::string expects() const override {
    return times_ == Times::allowed ? "a length such as 500 steps, 2 epochs, 1M samples or 10min"
                                    : "a length such as 500 steps, 2 epochs or 1M samples";
  }

 private:
  Zero zero_;
  Times times_;
};

// The name of a built-in tokenizer, or a path, as text.
class TokenizerType : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override {
    std::string name;
    const std::size_t before = reader.problems().count();
    text_.read(node, &name, reader);
    if (name.empty() || reader.problems().count() != before) return;
    auto& tokenizer = *static_cast<Tokenizer*>(value);
    tokenizer = {};
    if (name == kCharacters) {
      tokenizer.kind = Tokenizer::Kind::characters;
    } else if (name != kBytes) {
      tokenizer.kind = Tokenizer::Kind::file;
      tokenizer.path = name;
    }
  }
  Node write(const void* value) const override {
    const auto& tokenizer = *static_cast<const Tokenizer*>(value);
    std::string name = tokenizer.path;
    if (tokenizer.kind == Tokenizer::Kind::bytes) name = kBytes;
    if (tokenizer.kind == Tokenizer::Kind::characters) name = kCharacters;
    return text_.write(&name);
  }
  Json schema(Schema& schema) const override { return text_.schema(schema); }
  std::string expects() const override { return "bytes, characters or a path"; }
  std::string summary() const override { return expects(); }

 private:
  static constexpr const char* kBytes = "bytes";
  static constexpr const char* kCharacters = "characters";
  Text text_{4096, Text::Content::line};
};

class DeviceType : public Type {
 public:
  void read(const Node& node, void* value, Reader& reader) const override {
    if (node.reported) return;
    const auto device =
        node.kind == Node::Kind::scalar ? parse_device(node.text) : std::optional<Device>();
    if (!device) {
      const std::string near = suggestion(node.text, {"auto", "cpu", "cuda", "cuda:0"});
      return reader.expected(node, expects(), near.starts_with("; did") ? near : "");
    }
    *static_cast<Device*>(value) = *device;
  }
  Node write(const void* value) const override {
    const std::string text = format_device(*static_cast<const Device*>(value));
    return Node::plain(text);
  }
  Json schema(Schema&) const override {
    return or_variable({{"type", "string"}, {"pattern", "^(auto|cpu|cuda(:(0|[1-9][0-9]?))?)$"}});
  }
  std::string expects() const override { return "auto, cpu, cuda or cuda:N"; }
};

}  // namespace

Of<bool> boolean() { return {std::make_shared<Boolean>()}; }

Of<double> number(const Range& range) { return {std::make_shared<Number>(range)}; }

Of<std::int64_t> integer(std::int64_t low, std::int64_t high) {
  return {std::make_shared<WholeNumber>(low, static_cast<std::uint64_t>(high), true)};
}

Of<std::int64_t> one_of(const std::vector<std::int64_t>& values) {
  return {std::make_shared<OneOfIntegers>(values)};
}

Of<std::int64_t> byte_size() { return {std::make_shared<ByteSize>()}; }

Of<std::uint64_t> seed_number() {
  return {std::make_shared<WholeNumber>(0, std::numeric_limits<std::uint64_t>::max(), false)};
}

Of<std::string> text(std::size_t longest) {
  return {std::make_shared<Text>(longest, Text::Content::line)};
}

Of<std::string> any_text(std::size_t longest) {
  return {std::make_shared<Text>(longest, Text::Content::anything)};
}

Of<std::string> folder_name() { return {std::make_shared<Text>(100, Text::Content::folder)}; }

Of<std::string> word(const std::vector<std::string>& words) {
  const auto get = [words](const void* value) {
    const auto found =
        std::find(words.begin(), words.end(), *static_cast<const std::string*>(value));
    return found == words.end() ? 0 : static_cast<int>(found - words.begin());
  };
  const auto set = [words](void* value, int index) {
    *static_cast<std::string*>(value) = words[static_cast<std::size_t>(index)];
  };
  return {std::make_shared<Choice>(words, get, set)};
}

Of<Tokenizer> tokenizer_name() { return {std::make_shared<TokenizerType>()}; }

Of<Device> device_name() { return {std::make_shared<DeviceType>()}; }

Of<Length> length(Zero zero, Times times) { return {std::make_shared<LengthType>(zero, times)}; }

TypePtr make_choice(std::vector<std::string> names, std::function<int(const void*)> get,
                    std::function<void(void*, int)> set) {
  return std::make_shared<Choice>(std::move(names), std::move(get), std::move(set));
}

}  // namespace trainer::config

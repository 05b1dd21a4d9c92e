// Reads tokenizer.json. What it does not know it refuses: other ids than the reference's would show
// only as a model that learns badly.
#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <utility>

#include "core/error.h"
#include "data/sources/files.h"
#include "data/text/bpe_tokenizer.h"
#include "data/text/json_field.h"
#include "data/text/tokenizer_files.h"
#include "data/text/unicode.h"

namespace trainer::data {
namespace {

constexpr std::int64_t kLargestId = std::numeric_limits<TokenId>::max() / 2;

std::string type_of(const JsonField& part) { return part.at("type", true).text(); }

[[noreturn]] void fail_type(const JsonField& part) {
  part.at("type").fail("\"" + printable(type_of(part)) +
                       "\" is not supported; use another tokenizer, or tokenize the data outside");
}

// ------------------------------------------------------------------ model

Vocabulary read_vocabulary(const JsonField& field) {
  Vocabulary vocabulary;
  std::set<std::int64_t> ids;
  for (const auto& [token, id] : field.object().value().items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() > kLargestId)
      field.fail("the id of \"" + printable(token) + "\" must be a whole number from 0 to " +
                 std::to_string(kLargestId));
    if (!ids.insert(id.get<std::int64_t>()).second)
      field.fail("two tokens have the id " + std::to_string(id.get<std::int64_t>()));
    vocabulary.emplace(token, id.get<TokenId>());
  }
  if (vocabulary.empty()) field.fail("has no tokens");
  return vocabulary;
}

// `fail` gets what is wrong.
Merge make_merge(const Vocabulary& vocabulary, const std::string& left, const std::string& right,
                 const std::function<void(const std::string&)>& fail) {
  const auto id = [&](const std::string& token) {
    const auto at = vocabulary.find(token);
    if (at == vocabulary.end()) {
      fail("\"" + printable(token) + "\" is not in the vocabulary");
      return TokenId{};
    }
    return at->second;
  };
  return {id(left), id(right), id(left + right)};
}

std::optional<std::pair<std::string, std::string>> merge_parts(const std::string& line) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
    return std::nullopt;
  return std::pair{line.substr(0, space), line.substr(space + 1)};
}

std::vector<Merge> read_merges(const JsonField& field, const Vocabulary& vocabulary) {
  std::vector<Merge> merges;
  merges.reserve(field.array().size());
  for (std::size_t i = 0; i < field.size(); ++i) {
    const nlohmann::json& value = field.value()[i];
    const auto fail = [&](const std::string& what) { field.at(i).fail(what); };
    if (value.is_string()) {
      const std::string line = value.get<std::string>();
      if (line.starts_with("#version")) continue;
      const auto parts = merge_parts(line);
      if (!parts) fail("must be two tokens with one space between them");
      merges.push_back(make_merge(vocabulary, parts->first, parts->second, fail));
    } else {
      if (!value.is_array() || value.size() != 2 || !value[0].is_string() || !value[1].is_string())
        fail("must be two tokens");
      merges.push_back(
          make_merge(vocabulary, value[0].get<std::string>(), value[1].get<std::string>(), fail));
    }
  }
  return merges;
}

void refuse_unless_empty(const JsonField& field) {
  if (!field.is_null() && !field.text().empty()) field.fail("is not supported");
}

void read_model(const JsonField& model, BpeParts& parts) {
  if (model.has("type") && type_of(model) != "BPE") fail_type(model);
  const JsonField dropout = model.at("dropout");
  if (!dropout.is_null() && dropout.value() != 0.0)
    dropout.fail("is not supported; set it to null");
  refuse_unless_empty(model.at("continuing_subword_prefix"));
  refuse_unless_empty(model.at("end_of_word_suffix"));
  parts.spelled = read_vocabulary(model.at("vocab", true));
  parts.merges = read_merges(model.at("merges", true), parts.spelled);
  parts.options.fuse_unknown = model.at("fuse_unk").flag(false);
  parts.options.byte_fallback = model.at("byte_fallback").flag(false);
  parts.options.ignore_merges = model.at("ignore_merges").flag(false);
  if (const JsonField unknown = model.at("unk_token"); !unknown.is_null()) {
    const auto at = parts.spelled.find(unknown.text());
    // Without such a token, the reference fails when it would need one.
    if (at == parts.spelled.end())
      unknown.fail("\"" + printable(unknown.text()) + "\" is not in the vocabulary");
    parts.options.unknown = at->second;
  }
}

// ------------------------------------------------------------------ patterns

// A reason alone becomes one with the field in front.
template <typename Make>
auto in_field(const JsonField& field, Make&& make) {
  try {
    return make();
  } catch (const Error& error) {
    field.fail(error.what());
  }
}

// {"String": "..."} or {"Regex": "..."}.
struct Pattern {
  std::string text;
  bool regex;
};

Pattern read_pattern(const JsonField& field) {
  if (field.object().has("Regex")) return {field.at("Regex").text(), true};
  if (field.has("String")) return {field.at("String").text(), false};
  field.fail("must have Regex or String");
}

Delimiter read_behaviour(const JsonField& field) {
  const std::string name = field.text();
  if (name == "Isolated") return Delimiter::isolated;
  if (name == "Removed") return Delimiter::removed;
  if (name == "MergedWithPrevious") return Delimiter::merged_with_previous;
  if (name == "MergedWithNext") return Delimiter::merged_with_next;
  if (name == "Contiguous") return Delimiter::contiguous;
  field.fail("\"" + printable(name) + "\" is not known");
}

std::string read_character(const JsonField& field) {
  const std::string text = field.text();
  if (text.empty() || utf8_length(text.front()) != text.size()) field.fail("must be one character");
  return text;
}

// ------------------------------------------------------------------ normalizer

void read_normalizer(const JsonField& part, Normalizers& normalizers) {
  const std::string type = type_of(part);
  const auto add = [&](std::unique_ptr<Normalizer> made) {
    normalizers.push_back(std::move(made));
  };
  if (type == "Sequence") {
    const JsonField list = part.at("normalizers", true);
    for (std::size_t i = 0; i < list.array().size(); ++i) read_normalizer(list.at(i), normalizers);
  } else if (type == "NFC") {
    add(make_normal_form(NormalForm::nfc));
  } else if (type == "NFD") {
    add(make_normal_form(NormalForm::nfd));
  } else if (type == "NFKC") {
    add(make_normal_form(NormalForm::nfkc));
  } else if (type == "NFKD") {
    add(make_normal_form(NormalForm::nfkd));
  } else if (type == "Lowercase") {
    add(make_lowercase());
  } else if (type == "Strip") {
    add(make_strip(part.at("strip_left").flag(true), part.at("strip_right").flag(true)));
  } else if (type == "Prepend") {
    add(make_prepend(part.at("prepend", true).text()));
  } else if (type == "Replace") {
    const JsonField field = part.at("pattern", true);
    const Pattern pattern = read_pattern(field);
    std::string content = part.at("content", true).text();
    if (pattern.text.empty()) field.fail("is empty");
    if (pattern.regex)
      add(in_field(field, [&] { return make_replace(Regex(pattern.text), std::move(content)); }));
    else
      add(make_replace(pattern.text, std::move(content)));
  } else {
    fail_type(part);
  }
}

// ------------------------------------------------------------------ pre_tokenizer

std::unique_ptr<PreTokenizer> read_split(const JsonField& part) {
  const JsonField field = part.at("pattern", true);
  const Pattern pattern = read_pattern(field);
  const Delimiter behaviour = read_behaviour(part.at("behavior", true));
  const bool invert = part.at("invert").flag(false);
  if (!pattern.regex) return make_literal_split(pattern.text, behaviour, invert);
  return in_field(field, [&] { return make_split(pattern.text, behaviour, invert); });
}

std::unique_ptr<PreTokenizer> read_metaspace(const JsonField& part) {
  const JsonField field = part.at("prepend_scheme");
  const JsonField old = part.at("add_prefix_space");
  const std::string scheme = field.text("always");
  auto prepend = MetaspacePrepend::always;
  if (scheme == "first") {
    prepend = MetaspacePrepend::first;
  } else if (scheme == "never") {
    prepend = MetaspacePrepend::never;
  } else if (scheme != "always") {
    field.fail("\"" + printable(scheme) + "\" is not known");
  }
  if (!old.flag(true)) {
    if (!field.is_null() && scheme != "never") old.fail("contradicts prepend_scheme");
    prepend = MetaspacePrepend::never;
  }
  return make_metaspace(read_character(part.at("replacement", true)), prepend,
                        part.at("split").flag(true));
}

// Returns whether the pieces are of bytes from here on, after which nothing may follow.
bool read_pre_tokenizer(const JsonField& part, PreTokenizers& steps) {
  const std::string type = type_of(part);
  const auto add = [&](std::unique_ptr<PreTokenizer> made) { steps.push_back(std::move(made)); };
  if (type == "Sequence") {
    const JsonField list = part.at("pretokenizers", true);
    bool bytes = false;
    for (std::size_t i = 0; i < list.array().size(); ++i) {
      if (bytes) list.at(i).fail("is not supported after ByteLevel");
      bytes = read_pre_tokenizer(list.at(i), steps);
    }
    return bytes;
  }
  if (type == "ByteLevel") {
    if (part.at("add_prefix_space").flag(true)) add(make_prefix_space());
    if (part.at("use_regex").flag(true)) add(make_split(kGpt2Pattern, Delimiter::isolated, false));
    return true;
  }
  if (type == "Split") {
    add(read_split(part));
  } else if (type == "Digits") {
    add(make_digits(part.at("individual_digits").flag(false)));
  } else if (type == "Whitespace") {
    add(make_whitespace());
  } else if (type == "WhitespaceSplit") {
    add(make_whitespace_split());
  } else if (type == "Metaspace") {
    add(read_metaspace(part));
  } else {
    fail_type(part);
  }
  return false;
}

// ------------------------------------------------------------------ decoder

void read_decoder(const JsonField& part, TokenDecoders& decoders) {
  const std::string type = type_of(part);
  const auto add = [&](std::unique_ptr<TokenDecoder> made) { decoders.push_back(std::move(made)); };
  if (type == "Sequence") {
    const JsonField list = part.at("decoders", true);
    for (std::size_t i = 0; i < list.array().size(); ++i) read_decoder(list.at(i), decoders);
  } else if (type == "ByteLevel") {
    add(make_byte_level_decoder());
  } else if (type == "ByteFallback") {
    add(make_byte_fallback_decoder());
  } else if (type == "Fuse") {
    add(make_fuse_decoder());
  } else if (type == "Replace") {
    const JsonField field = part.at("pattern", true);
    const Pattern pattern = read_pattern(field);
    std::string content = part.at("content", true).text();
    if (pattern.text.empty()) field.fail("is empty");
    if (pattern.regex)
      add(in_field(field,
                   [&] { return make_replace_decoder(Regex(pattern.text), std::move(content)); }));
    else
      add(make_replace_decoder(pattern.text, std::move(content)));
  } else if (type == "Strip") {
    const auto count = [&](const char* key) {
      const JsonField field = part.at(key, true);
      if (field.integer() < 0) field.fail("must not be negative");
      return static_cast<std::size_t>(field.integer());
    };
    add(make_strip_decoder(read_character(part.at("content", true)), count("start"),
                           count("stop")));
  } else if (type == "Metaspace") {
    const bool never = part.at("prepend_scheme").text("always") == "never" ||
                       !part.at("add_prefix_space").flag(true);
    add(make_metaspace_decoder(read_character(part.at("replacement", true)), !never));
  } else {
    fail_type(part);
  }
}

// ------------------------------------------------------------------ added tokens

AddedToken read_added(const JsonField& part) {
  AddedToken token;
  token.content = part.at("content", true).text();
  token.special = part.at("special").flag(false);
  token.single_word = part.at("single_word").flag(false);
  token.lstrip = part.at("lstrip").flag(false);
  token.rstrip = part.at("rstrip").flag(false);
  token.normalized = part.at("normalized").flag(!token.special);
  const JsonField id = part.at("id", true);
  if (id.integer() < 0 || id.integer() > kLargestId)
    id.fail("must be from 0 to " + std::to_string(kLargestId));
  token.id = static_cast<TokenId>(id.integer());
  return token;
}

// The reference gives out ids itself: that of the vocabulary, or the next one behind it. A file
// that says otherwise was not made by it, and the two would be of different opinion.
void read_added_tokens(const JsonField& list, BpeParts& parts) {
  if (list.is_null()) return;
  auto next = static_cast<TokenId>(parts.spelled.size());
  for (std::size_t i = 0; i < list.array().size(); ++i) {
    AddedToken token = read_added(list.at(i));
    if (token.content.empty()) list.at(i).at("content").fail("is empty");
    const auto known = parts.spelled.find(token.content);
    const TokenId expected = known != parts.spelled.end() ? known->second : next++;
    if (token.id != expected)
      list.at(i).at("id").fail("is " + std::to_string(token.id) +
                               ", but the tokenizers package gives \"" + printable(token.content) +
                               "\" the id " + std::to_string(expected));
    parts.added.push_back(std::move(token));
  }
}

std::optional<TokenId> find_in(const BpeParts& parts, std::string_view token) {
  for (const AddedToken& added : parts.added)
    if (added.content == token) return added.id;
  const auto at = parts.spelled.find(token);
  return at == parts.spelled.end() ? std::nullopt : std::optional(at->second);
}

void read_parts(const JsonField& root, BpeParts& parts) {
  read_model(root.at("model", true), parts);
  if (const JsonField part = root.at("normalizer"); !part.is_null())
    read_normalizer(part, parts.normalizers);
  if (const JsonField part = root.at("pre_tokenizer"); !part.is_null())
    parts.options.bytes = read_pre_tokenizer(part, parts.pre_tokenizers);
  if (parts.options.bytes && parts.options.byte_fallback)
    root.at("model").at("byte_fallback").fail("is not supported with the pre-tokenizer ByteLevel");
  if (const JsonField part = root.at("decoder"); !part.is_null())
    read_decoder(part, parts.decoders);
  else if (parts.options.bytes)
    parts.decoders.push_back(make_byte_level_decoder());
  read_added_tokens(root.at("added_tokens"), parts);
}

// ------------------------------------------------------------------ GPT-2's two files

std::vector<Merge> read_merge_lines(const std::string& content, const std::string& file,
                                    const Vocabulary& vocabulary) {
  std::vector<Merge> merges;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("#version") || (line.empty() && begin >= content.size())) continue;
    const auto fail = [&](const std::string& what) {
      throw Error(Exit::data, printable(file) + ":" + std::to_string(number) + ": " + what);
    };
    const auto parts = merge_parts(line);
    if (!parts) fail("must be two tokens with one space between them");
    merges.push_back(make_merge(vocabulary, parts->first, parts->second, fail));
  }
  return merges;
}

std::string read_text(const std::string& file) {
  std::vector<std::uint8_t> bytes;
  try {
    read_file(file, bytes);
  } catch (const Error& error) {
    throw Error(Exit::data, printable(file) + ": " + error.what());
  }
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const std::filesystem::path& file) {
  std::string content;
  const nlohmann::json json = parse_json_file(file.string(), content);
  BpeParts parts;
  parts.file = file.string();
  parts.fingerprint = hash_text(content, hash_text("tokenizer.json", 0));
  read_parts(JsonField(json, parts.file, ""), parts);
  const DocumentTokens around = document_tokens(
      file.parent_path(), [&](std::string_view token) { return find_in(parts, token); });
  parts.begin = around.begin;
  parts.end = around.end;
  return make_bpe_tokenizer(std::move(parts));
}

std::unique_ptr<Tokenizer> load_gpt2_files(const std::filesystem::path& vocab,
                                           const std::filesystem::path& merges) {
  const std::filesystem::path added = vocab.parent_path() / "added_tokens.json";
  if (std::filesystem::exists(added))
    throw Error(Exit::data, printable(added) +
                                ": is not read beside vocab.json; save the tokenizer as "
                                "tokenizer.json (transformers: AutoTokenizer, save_pretrained)");
  std::string content;
  const nlohmann::json json = parse_json_file(vocab.string(), content);
  const std::string lines = read_text(merges.string());
  BpeParts parts;
  parts.file = vocab.string();
  parts.fingerprint = hash_text(lines, hash_text(content, hash_text("vocab.json", 0)));
  parts.spelled = read_vocabulary(JsonField(json, parts.file, ""));
  parts.merges = read_merge_lines(lines, merges.string(), parts.spelled);
  parts.options.bytes = true;
  parts.pre_tokenizers.push_back(make_split(kGpt2Pattern, Delimiter::isolated, false));
  parts.decoders.push_back(make_byte_level_decoder());
  if (const auto id = find_in(parts, "<|endoftext|>"))
    parts.added.push_back(
        {.content = "<|endoftext|>", .id = *id, .special = true, .normalized = false});
  const DocumentTokens around = document_tokens(
      vocab.parent_path(), [&](std::string_view token) { return find_in(parts, token); });
  parts.begin = around.begin;
  parts.end = around.end;
  return make_bpe_tokenizer(std::move(parts));
}

}  // namespace trainer::data

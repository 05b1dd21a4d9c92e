// A JSON object a line: text, or conversations of which the answers are learnt.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/sources/index_file.h"
#include "data/text/chat.h"
#include "data/text/text_input.h"

namespace trainer::data {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& reason) { throw Error(Exit::data, reason); }

std::string quoted(const std::string& key) { return "\"" + printable(key) + "\""; }

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

Json parse(std::string_view line) {
  try {
    Json json = Json::parse(line);
    if (!json.is_object()) fail("the line is no JSON object");
    return json;
  } catch (const Json::parse_error& error) {
    fail("the line is no valid JSON (at its byte " + std::to_string(error.byte) + ")");
  }
}

const std::string& text_at(const Json& object, const std::string& key, const char* where = "") {
  const auto value = object.find(key);
  if (value == object.end()) fail("there is no " + quoted(key) + where);
  if (!value->is_string()) fail("the value of " + quoted(key) + where + " is no text");
  return value->get_ref<const std::string&>();
}

std::vector<ChatMessage> messages_of(const Json& list) {
  if (!list.is_array() || list.empty())
    fail("the value of \"messages\" is no list of {role, content}");
  std::vector<ChatMessage> messages;
  for (const Json& each : list) {
    if (!each.is_object()) fail("an entry of \"messages\" is no object of role and content");
    messages.push_back(
        {text_at(each, "role", " in a message"), text_at(each, "content", " in a message")});
  }
  return messages;
}

// {instruction, input, output}; an empty input counts as none.
std::vector<ChatMessage> instruction_of(const Json& object, bool input_role) {
  std::string request = text_at(object, "instruction");
  std::string input;
  if (object.contains("input")) input = text_at(object, "input");
  const std::string& output = text_at(object, "output");
  if (input.empty()) return {{"user", request}, {"assistant", output}};
  if (input_role) return {{"user", request}, {"input", input}, {"assistant", output}};
  return {{"user", request + "\n\n" + input}, {"assistant", output}};
}

std::uint64_t settings_of(const config::JsonlFiles& config) {
  Packer packer;
  packer.text("jsonl");
  packer.text(config.text_key);
  packer.number(static_cast<int>(config.chat.kind));
  for (const config::RoleTemplate& role : config.chat.roles) {
    packer.text(role.role);
    packer.text(role.prefix);
    packer.text(role.suffix);
  }
  return hash_text(packer.bytes(), 1);
}

class Jsonl : public TextInput {
 public:
  Jsonl(const config::JsonlFiles& config, std::uint64_t block_bytes)
      : TextInput(config.path, {".jsonl"}, settings_of(config), block_bytes), config_(config) {}

  std::optional<TextBlock> block_at(const TextPosition& position,
                                    const Tokenizer& /*tokenizer*/) const override {
    TextBlock block;
    block.next = position;
    if (!enter_file(block.next)) return std::nullopt;
    const std::string_view text = text_of(block.next.file);
    block.file = block.next.file;
    block.begin = block.next.offset;
    const std::size_t wanted = block.begin + block_bytes_;
    const std::size_t line = wanted < text.size() ? text.find('\n', wanted) : text.size();
    block.end = line >= text.size() ? text.size() : line + 1;
    block.next = {block.file, block.end, false};
    return block;
  }

  TokenBlock encode(const TextBlock& block, const Tokenizer& tokenizer) const override {
    const ChatEncoder chat(config_.chat, tokenizer);
    const std::string_view text = text_of(block.file).substr(0, block.end);
    TokenBlock tokens;
    for (std::size_t begin = block.begin; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      try {
        add_line(text.substr(begin, end - begin), chat, tokenizer, tokens);
      } catch (const Error& error) {
        throw Error(error.code(), place_of(block.file, begin) + ": " + error.what());
      }
      begin = end + 1;
    }
    return tokens;
  }

 private:
  void add_line(std::string_view line, const ChatEncoder& chat, const Tokenizer& tokenizer,
                TokenBlock& tokens) const {
    if (is_blank(line)) return;
    const Json object = parse(line);
    if (object.contains(config_.text_key)) {
      add_document(text_at(object, config_.text_key), true, true, tokenizer, tokens);
      tokens.learnt.resize(tokens.ids.size(), 1);
    } else if (object.contains("messages")) {
      chat.encode(messages_of(object.at("messages")), tokens);
    } else if (object.contains("prompt") && object.contains("completion")) {
      chat.encode(
          {{"user", text_at(object, "prompt")}, {"assistant", text_at(object, "completion")}},
          tokens);
    } else if (object.contains("instruction") && object.contains("output")) {
      const bool input_role = config_.chat.kind == config::ChatTemplate::Kind::alpaca;
      chat.encode(instruction_of(object, input_role), tokens);
    } else {
      fail("there is neither " + quoted(config_.text_key) +
           ", nor \"messages\", nor \"prompt\" and \"completion\", nor \"instruction\" and "
           "\"output\"");
    }
  }

  // file:line, counted only for a message.
  std::string place_of(std::size_t file, std::size_t offset) const {
    const std::string_view before = text_of(file).substr(0, offset);
    const auto lines = std::count(before.begin(), before.end(), '\n');
    return printable(files()[file]->path()) + ":" + std::to_string(lines + 1);
  }

  config::JsonlFiles config_;
};

}  // namespace

std::unique_ptr<TextInput> make_jsonl_input(const config::JsonlFiles& config,
                                            std::uint64_t block_bytes) {
  return std::make_unique<Jsonl>(config, block_bytes);
}

}  // namespace trainer::data

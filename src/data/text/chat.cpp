#include "data/text/chat.h"

#include <algorithm>

#include "core/error.h"
#include "data/sources/files.h"

namespace trainer::data {
namespace {

using Kind = config::ChatTemplate::Kind;

[[noreturn]] void fail_role(const std::string& role, const std::string& known) {
  throw Error(Exit::data,
              "the chat template has no role \"" + printable(role) + "\"; it has " + known);
}

// Llama 3's template strips contents.
std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\f\v";
  const auto begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

}  // namespace

std::optional<TokenId> start_token(const Tokenizer& tokenizer) {
  const std::optional<TokenId> begin = tokenizer.begin();
  return begin == tokenizer.end() ? std::nullopt : begin;
}

ChatEncoder::ChatEncoder(const config::ChatTemplate& config, const Tokenizer& tokenizer)
    : config_(config), tokenizer_(tokenizer) {
  const auto answers = [](const config::RoleTemplate& role) { return role.role == kAnswerRole; };
  if (config.kind == Kind::custom &&
      std::none_of(config.roles.begin(), config.roles.end(), answers)) {
    throw Error(Exit::config,
                "the chat template has no role \"assistant\", whose messages are what is learnt; "
                "add it to its roles");
  }
}

ChatEncoder::Turn ChatEncoder::alpaca_turn(const std::string& role) const {
  if (role == "system") return {"", "\n\n", "", false};
  if (role == "user") return {"### Instruction:\n", "\n\n", "", false};
  if (role == "input") return {"### Input:\n", "\n\n", "", false};
  if (role == kAnswerRole) return {"### Response:\n", "", "\n\n", true};
  fail_role(role, "system, user, input and assistant");
}

ChatEncoder::Turn ChatEncoder::custom_turn(const std::string& role) const {
  std::string known;
  for (const config::RoleTemplate& each : config_.roles) {
    if (each.role == role) return {each.prefix, each.suffix, "", false};
    known += (known.empty() ? "" : ", ") + printable(each.role);
  }
  fail_role(role, known);
}

ChatEncoder::Turn ChatEncoder::turn_of(const std::string& role) const {
  switch (config_.kind) {
    case Kind::chatml:
      return {"<|im_start|>" + role + "\n", "<|im_end|>", "\n", false};
    case Kind::llama3:
      return {"<|start_header_id|>" + role + "<|end_header_id|>\n\n", "<|eot_id|>", "", false};
    case Kind::plain:
      return {"", "", "", role == kAnswerRole};
    case Kind::custom:
      return custom_turn(role);
    case Kind::alpaca:
      break;
  }
  return alpaca_turn(role);
}

void ChatEncoder::add(std::string_view text, bool special, bool learnt, TokenBlock& block) const {
  if (!text.empty()) tokenizer_.encode(text, block.ids, special);
  block.learnt.resize(block.ids.size(), learnt ? 1 : 0);
}

void ChatEncoder::add_start(TokenBlock& block) const {
  if (config_.kind == Kind::llama3) return add("<|begin_of_text|>", true, false, block);
  if (const auto start = start_token(tokenizer_)) block.ids.push_back(*start);
  block.learnt.resize(block.ids.size(), 0);
}

void ChatEncoder::add_message(const ChatMessage& message, bool last, TokenBlock& block) const {
  const Turn turn = turn_of(message.role);
  const bool answer = message.role == kAnswerRole;
  const bool strips = config_.kind == Kind::llama3;
  add(turn.prefix, /*special=*/true, /*learnt=*/false, block);
  add(strips ? trimmed(message.content) : message.content, /*special=*/false, answer, block);
  add(turn.suffix, /*special=*/true, answer, block);
  if (const auto end = tokenizer_.end(); end && turn.end_token) {
    block.ids.push_back(*end);
    block.learnt.push_back(1);
  }
  // ChatML's own template ends with a newline.
  if (!last || config_.kind == Kind::chatml)
    add(turn.between, /*special=*/true, /*learnt=*/false, block);
}

void ChatEncoder::encode(const std::vector<ChatMessage>& messages, TokenBlock& block) const {
  const bool answered =
      std::any_of(messages.begin(), messages.end(),
                  [](const ChatMessage& message) { return message.role == kAnswerRole; });
  if (!answered)
    throw Error(Exit::data, "no message is of the role \"assistant\": there is nothing to learn");
  add_start(block);
  for (const ChatMessage& message : messages)
    add_message(message, &message == &messages.back(), block);
  block.ends.push_back(block.ids.size());
}

}  // namespace trainer::data

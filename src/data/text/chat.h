// Conversations and instructions as tokens, with what is to be learnt of them. No torch here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/experiment.h"
#include "data/text/token_arrays.h"
#include "data/text/tokenizer.h"

namespace trainer::data {

struct ChatMessage {
  std::string role, content;
};

// The role whose content is learnt.
constexpr std::string_view kAnswerRole = "assistant";

// Templates by name: ChatML (<|im_start|>role ... <|im_end|>), Llama 3's headers, Alpaca's
// "### Instruction:", and plain, which puts nothing around the contents. Each piece, a prefix, a
// content or a suffix, becomes tokens by itself, so that what is learnt begins and ends with a
// token, just where generation begins and ends; and special tokens are recognised in the template
// only, not in contents.
class ChatEncoder {
 public:
  // Throws Error(config) where a custom template has no answers' role.
  ChatEncoder(const config::ChatTemplate& config, const Tokenizer& tokenizer);

  // Appends the conversation as one document. Learnt are the contents of answers with their
  // suffixes (the end of the turn). Throws Error(data), without saying where, for a role that the
  // template does not know and for a conversation without an answer.
  void encode(const std::vector<ChatMessage>& messages, TokenBlock& block) const;

 private:
  // What stands around a message; `between` follows it and is never learnt.
  struct Turn {
    std::string prefix, suffix, between;
    bool end_token = false;  // an answer ends with the tokenizer's end token
  };

  Turn turn_of(const std::string& role) const;
  Turn alpaca_turn(const std::string& role) const;
  Turn custom_turn(const std::string& role) const;
  void add(std::string_view text, bool special, bool learnt, TokenBlock& block) const;
  void add_start(TokenBlock& block) const;
  void add_message(const ChatMessage& message, bool last, TokenBlock& block) const;

  config::ChatTemplate config_;
  const Tokenizer& tokenizer_;
};

// The token that stands before a document: the tokenizer's first one, unless it is the one that
// stands after it.
std::optional<TokenId> start_token(const Tokenizer& tokenizer);

}  // namespace trainer::data

// The kinds of files that load_tokenizer() reads. All throw Error(data) naming the file and the
// field.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/text/tokenizer.h"

namespace trainer::data {

// Hugging Face's tokenizer.json, with tokenizer_config.json beside it where there is one. Its
// post_processor, truncation and padding are not applied.
std::unique_ptr<Tokenizer> load_tokenizer_json(const std::filesystem::path& file);
// GPT-2's two files, beside each other: vocab.json and merges.txt.
std::unique_ptr<Tokenizer> load_gpt2_files(const std::filesystem::path& vocab,
                                           const std::filesystem::path& merges);
std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file);

// The tokens that stand before and after a document.
struct DocumentTokens {
  std::optional<TokenId> begin, end;
};
// As tokenizer_config.json in `folder` says (bos_token, eos_token), and, where it says nothing,
// those of well-known names in `tokenizer`'s vocabulary.
DocumentTokens document_tokens(const std::filesystem::path& folder,
                               const std::function<std::optional<TokenId>(std::string_view)>& find);

}  // namespace trainer::data

// A tokenizer of byte-pair encoding, put together from its parts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/added_tokens.h"
#include "data/text/bpe.h"
#include "data/text/normalizer.h"
#include "data/text/pretokenizer.h"
#include "data/text/token_decoder.h"
#include "data/text/tokenizer.h"

namespace trainer::data {

struct BpeParts {
  std::string file;  // for messages
  std::uint64_t fingerprint = 0;
  Vocabulary spelled;  // as the vocabulary writes its tokens; without the added ones
  std::vector<Merge> merges;
  BpeOptions options;  // with `bytes`, tokens are spelled as byte_level_bytes() reads them
  Normalizers normalizers;
  PreTokenizers pre_tokenizers;
  TokenDecoders decoders;
  std::vector<AddedToken> added;
  std::optional<TokenId> begin, end;
};

// Throws Error(data) naming the file.
std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeParts parts);

}  // namespace trainer::data

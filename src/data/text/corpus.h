// A corpus: tokens in a row, of one or many files, in memory or mapped. No torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/experiment.h"
#include "data/sampler.h"
#include "data/text/token_file.h"

namespace trainer::data {

// Read-only; used from many threads. Copies share the tokens. Positions are in tokens, from 0.
class TokenCorpus {
 public:
  // The segments one after another; `kind` and `path` are for describe().
  TokenCorpus(std::vector<TokenSegment> segments, const std::string& kind);

  std::int64_t size() const { return range_.size(); }
  // Whether it is known where documents begin and end; it is not of raw .bin files.
  bool has_documents() const;
  std::int64_t documents() const { return documents_.size(); }
  // Its tokens. What lies outside a part is cut off.
  Range document(std::int64_t index) const;
  // Whether some tokens are not to be predicted: prompts.
  bool masked() const;

  // Tokens [begin, begin + count).
  void read(std::int64_t begin, std::int64_t count, std::int32_t* to) const;
  void read(std::int64_t begin, std::int64_t count, std::int64_t* to) const;
  // Of the same tokens: 1 where it is to be predicted, else 0.
  void read_learnt(std::int64_t begin, std::int64_t count, std::uint8_t* to) const;

  // The largest id in all the files, whatever the part.
  std::int64_t largest() const;
  // Throws Error(data) naming the file and the offset of the first id that is not below it.
  void require_vocabulary(std::int64_t vocabulary) const;
  // The fingerprint of the tokenizer that made it; nullopt where that is unknown.
  std::optional<std::uint64_t> tokenizer() const;

  // Some of its tokens, as a corpus.
  TokenCorpus part(Range tokens) const;

  // Changes when the tokens, the documents or the mask change; a resumed run compares it.
  std::uint64_t fingerprint() const;
  // A line for the log: kind, path, tokens, documents, files.
  std::string describe() const;

 private:
  struct Storage;

  template <class T>
  void read_as(std::int64_t begin, std::int64_t count, T* to) const;
  void find_documents();

  std::shared_ptr<const Storage> storage_;
  Range range_;      // of the storage's tokens
  Range documents_;  // of the storage's documents that have a token in it
};

// Token files as they are: nanoGPT's raw uint16, llm.c's, our own shards; a file, a folder of .bin
// and .tokens files, or a glob. Of a folder that `trainer data tokenize` wrote every shard must be
// there. Throws Error(data) naming the file, the offset and what is wrong.
TokenCorpus open_tokens(const std::string& path);

// The part of a source's corpus that it asks for: val_share of the tokens at the end are for
// validation. The cut is at token floor((1 - val_share) * size); where documents stay whole, at the
// first one that begins there or later. Throws Error(data) where a part would be empty.
TokenCorpus part_of(const TokenCorpus& corpus, const config::TokenSource& source);

}  // namespace trainer::data

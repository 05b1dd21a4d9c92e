// What a text source of an experiment opens: its tokenizer and its tokens. No torch here.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "config/experiment.h"
#include "data/text/corpus.h"
#include "data/text/tokenizer.h"

namespace trainer::data {

struct OpenedTokenizer {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: token files of an unknown tokenizer
  // Of the `characters` tokenizer, UTF-8, else empty. To be kept with the run and its checkpoints,
  // and given to `open_tokenizer` for data.val, a resumed run and for use, so that ids stay the
  // same.
  std::string alphabet;
};

// The source's tokenizer. `characters` takes `alphabet` where it is given; else that of the
// source's whole text, both parts. Of token files: the one that is named, or the one that their
// folder was made with, where that can still be loaded. Throws Error(data).
OpenedTokenizer open_tokenizer(const config::TextSource& source,
                               const std::optional<std::string>& alphabet = std::nullopt);

// The source's part of its corpus. Text becomes tokens here, with all threads; they are kept in the
// user's cache folder as a shard (where the source wants it), which the next run maps, as long as
// files, settings and tokenizer stay the same. Throws Error(data) naming the file (and line) where
// it cannot be read, is empty, or was made by a tokenizer other than `tokenizer` (which may be null
// for token files).
TokenCorpus open_corpus(const config::TextSource& source, const Tokenizer* tokenizer);

// What all kinds of text sources have.
const config::TokenSource& common(const config::TextSource& source);

}  // namespace trainer::data

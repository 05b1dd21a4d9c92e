// The documents of text and JSONL files, in pieces that become tokens by themselves. No torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/experiment.h"
#include "data/sources/files.h"
#include "data/text/shard_manifest.h"
#include "data/text/token_arrays.h"
#include "data/text/tokenizer.h"

namespace trainer::data {

using TextPosition = ShardManifest::Position;

// Bytes of one file: some whole documents, or a part of a large one.
struct TextBlock {
  std::size_t file = 0;
  std::uint64_t begin = 0, end = 0;
  bool begins_document = true;  // false: the document began in an earlier block
  bool ends_document = true;    // false: it goes on in the next block
  TextPosition next;            // where the next block begins
};

// Read-only after construction; used from many threads.
class TextInput {
 public:
  // About as many bytes as a block has. The blocks, and with them the shards, depend on it.
  static constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;

  virtual ~TextInput() = default;
  // The block at `position`, or nullopt at the end of the last file. A document that is larger than
  // two blocks is cut after a line where the tokenizer sees to both sides by themselves (what
  // `tokenizer` makes of the lines around the cut shows it), or not at all.
  virtual std::optional<TextBlock> block_at(const TextPosition& position,
                                            const Tokenizer& tokenizer) const = 0;
  // The block's tokens. A document begins with the tokenizer's first token, where it has one that
  // is not its last, and ends with its last. Throws Error(data) naming the file, and of JSONL the
  // line.
  virtual TokenBlock encode(const TextBlock& block, const Tokenizer& tokenizer) const = 0;

  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }
  std::uint64_t bytes() const;
  // Of all that the tokens depend on beside the tokenizer: paths, sizes and times of change of the
  // files, and the settings.
  std::uint64_t settings() const { return settings_; }
  // The latest change of any of the files, in Stamp::changed's unit.
  std::int64_t changed() const { return changed_; }
  const std::string& name() const { return name_; }  // for messages: the path

 protected:
  TextInput(const std::string& path, const std::vector<std::string>& extensions,
            std::uint64_t settings, std::uint64_t block_bytes);

  // Moves over the ends of files; false at the end of the last.
  bool enter_file(TextPosition& position) const;
  std::string_view text_of(std::size_t file) const { return as_text(files_[file]->bytes()); }

  std::uint64_t block_bytes_;

 private:
  std::vector<std::shared_ptr<const MappedFile>> files_;  // those that are not empty
  std::uint64_t settings_;
  std::int64_t changed_ = 0;
  std::string name_;
};

// Throw Error(data) naming the path where no file has any text.
std::unique_ptr<TextInput> make_text_input(const config::TextFiles& config,
                                           std::uint64_t block_bytes = TextInput::kBlockBytes);
std::unique_ptr<TextInput> make_jsonl_input(const config::JsonlFiles& config,
                                            std::uint64_t block_bytes = TextInput::kBlockBytes);

// Adds text, a document or a part of one, to the block: with the tokens before and after it.
void add_document(std::string_view text, bool begins, bool ends, const Tokenizer& tokenizer,
                  TokenBlock& block);

// The place of the cut after which `tokenizer` goes on independently: after a newline of `text`, at
// `from` or later, but before `to`; nullopt where none is found.
std::optional<std::size_t> find_cut(std::string_view text, std::size_t from, std::size_t to,
                                    const Tokenizer& tokenizer);

}  // namespace trainer::data

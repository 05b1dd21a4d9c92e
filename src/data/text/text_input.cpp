#include "data/text/text_input.h"

#include <algorithm>

#include "core/error.h"
#include "data/sources/index_file.h"
#include "data/text/chat.h"
#include "data/text/text_files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

// The line's part nearest to the cut, without cutting a UTF-8 character.
constexpr std::size_t kContext = 400;

bool continues_character(char byte) { return (static_cast<std::uint8_t>(byte) & 0xc0) == 0x80; }

std::string_view before(std::string_view text, std::size_t cut) {
  std::size_t begin = cut > kContext ? cut - kContext : 0;
  while (begin < cut && continues_character(text[begin])) ++begin;
  return text.substr(begin, cut - begin);
}

std::string_view after(std::string_view text, std::size_t cut) {
  std::size_t end = std::min(text.size(), cut + kContext);
  while (end < text.size() && end > cut && continues_character(text[end])) --end;
  return text.substr(cut, end - cut);
}

bool cuts_cleanly(std::string_view text, std::size_t cut, const Tokenizer& tokenizer) {
  std::vector<TokenId> apart;
  tokenizer.encode(before(text, cut), apart, /*special=*/false);
  tokenizer.encode(after(text, cut), apart, /*special=*/false);
  const std::string both = std::string(before(text, cut)) + std::string(after(text, cut));
  std::vector<TokenId> together;
  tokenizer.encode(both, together, /*special=*/false);
  return apart == together;
}

bool is_space(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r'); }

}  // namespace

// Tokenizers take runs of spaces and newlines as a whole, so a cut has text on both sides.
std::optional<std::size_t> find_cut(std::string_view text, std::size_t from, std::size_t to,
                                    const Tokenizer& tokenizer) {
  constexpr int kTries = 20;
  std::size_t line = text.find('\n', from);
  for (int tries = 0; tries < kTries && line != std::string_view::npos && line + 1 < to;
       line = text.find('\n', line + 1)) {
    if (line == 0 || is_space(text[line - 1]) || is_space(text[line + 1])) continue;
    if (cuts_cleanly(text, line + 1, tokenizer)) return line + 1;
    ++tries;
  }
  return std::nullopt;
}

void add_document(std::string_view text, bool begins, bool ends, const Tokenizer& tokenizer,
                  TokenBlock& block) {
  if (const auto start = start_token(tokenizer); start && begins) block.ids.push_back(*start);
  tokenizer.encode(text, block.ids, /*special=*/false);
  if (!ends) return;
  if (const auto end = tokenizer.end()) block.ids.push_back(*end);
  block.ends.push_back(block.ids.size());
}

TextInput::TextInput(const std::string& path, const std::vector<std::string>& extensions,
                     std::uint64_t settings, std::uint64_t block_bytes)
    : block_bytes_(block_bytes), settings_(settings), name_(printable(path)) {
  const std::vector<fs::path> found = find_files(path, extensions, /*deep=*/true);
  for (const fs::path& file : found) {
    const auto stamp = stamp_of(file);
    if (stamp && stamp->size == 0 && fs::is_regular_file(file)) continue;
    auto mapped = std::make_shared<const MappedFile>(file);
    Packer key;
    key.text(fs::absolute(file).lexically_normal().native());
    key.number(stamp ? stamp->size : 0);
    key.number(stamp ? stamp->changed : 0);
    settings_ = hash_text(key.bytes(), settings_);
    changed_ = std::max(changed_, stamp ? stamp->changed : now());
    files_.push_back(std::move(mapped));
  }
  if (files_.empty()) {
    throw Error(Exit::data,
                name_ + ": the corpus is empty: " +
                    (found.size() == 1 ? "the file has"
                                       : "all " + std::to_string(found.size()) + " files have") +
                    " no bytes");
  }
}

std::uint64_t TextInput::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& file : files_) sum += file->bytes().size();
  return sum;
}

bool TextInput::enter_file(TextPosition& position) const {
  while (position.file < files_.size() &&
         position.offset >= files_[position.file]->bytes().size()) {
    position = {position.file + 1, 0, false};
  }
  return position.file < files_.size();
}

namespace {

class PlainText : public TextInput {
 public:
  PlainText(const config::TextFiles& config, std::uint64_t block_bytes)
      : TextInput(config.path, {".txt"}, settings_of(config), block_bytes),
        separator_(config.document_separator.value_or("")) {}

  std::optional<TextBlock> block_at(const TextPosition& position,
                                    const Tokenizer& tokenizer) const override {
    TextBlock block;
    block.next = position;
    if (!enter_file(block.next)) return std::nullopt;
    const std::string_view text = text_of(block.next.file);
    block.file = block.next.file;
    block.begin = block.next.offset;
    block.begins_document = !block.next.inside;
    std::size_t end = document_end(text, block.begin);
    // Whole documents as long as they fit.
    while (!block.next.inside && end < text.size()) {
      const std::size_t following = document_end(text, end + separator_.size());
      if (following - block.begin > block_bytes_) break;
      end = following;
    }
    finish(text, end, tokenizer, block);
    return block;
  }

  TokenBlock encode(const TextBlock& block, const Tokenizer& tokenizer) const override {
    TokenBlock tokens;
    const std::string_view text = text_of(block.file).substr(0, block.end);
    try {
      for (std::size_t begin = block.begin; begin <= text.size();) {
        const std::size_t end = document_end(text, begin);
        const bool last = end == text.size();
        const bool begins = begin != block.begin || block.begins_document;
        const bool ends = !last || block.ends_document;
        if (end > begin || !begins)
          add_document(text.substr(begin, end - begin), begins, ends, tokenizer, tokens);
        if (last) break;
        begin = end + separator_.size();
      }
    } catch (const Error& error) {
      throw Error(error.code(), printable(files()[block.file]->path()) + ": " + error.what());
    }
    return tokens;
  }

 private:
  static std::uint64_t settings_of(const config::TextFiles& config) {
    return hash_text("text\n" + config.document_separator.value_or(""), 1);
  }

  std::size_t document_end(std::string_view text, std::size_t begin) const {
    if (separator_.empty()) return text.size();
    return std::min(text.find(separator_, begin), text.size());
  }

  // The block goes to `end`, where a document ends, or to a cut before it.
  void finish(std::string_view text, std::size_t end, const Tokenizer& tokenizer,
              TextBlock& block) const {
    const std::size_t begin = block.begin;
    if (end - begin > 2 * block_bytes_) {
      const auto cut = find_cut(text, begin + block_bytes_, end, tokenizer);
      if (cut) {
        block.end = *cut;
        block.ends_document = false;
        block.next = {block.file, *cut, true};
        return;
      }
    }
    block.end = end;
    block.ends_document = true;
    block.next = {block.file, end == text.size() ? end : end + separator_.size(), false};
  }

  std::string separator_;
};

}  // namespace

std::unique_ptr<TextInput> make_text_input(const config::TextFiles& config,
                                           std::uint64_t block_bytes) {
  return std::make_unique<PlainText>(config, block_bytes);
}

}  // namespace trainer::data

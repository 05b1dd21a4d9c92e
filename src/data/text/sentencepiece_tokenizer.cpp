// tokenizer.model, through the sentencepiece library. Without it such files are refused.
#include "core/error.h"
#include "data/sources/files.h"
#include "data/text/tokenizer_files.h"

#ifdef TRAINER_SENTENCEPIECE

#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <span>

#include "data/text/added_tokens.h"
#include "data/text/normalizer.h"
#include "data/text/token_decoder.h"
#include "data/text/unicode.h"
#include "data/text/word_cache.h"

namespace trainer::data {
namespace {

constexpr std::string_view kMark = "\xE2\x96\x81";  // U+2581, which stands for a space
// A ModelProto that, behind another one, overwrites one of its fields:
// normalizer_spec { add_dummy_prefix: false }.
constexpr std::string_view kNoPrefix{"\x1A\x02\x18\x00", 4};

// The fields of a message, as protobuf lays them out: calls on_number(field, value) and
// on_bytes(field, bytes). Stops at what it cannot read: the library has accepted the file before.
template <typename OnNumber, typename OnBytes>
void read_message(std::string_view message, OnNumber&& on_number, OnBytes&& on_bytes) {
  const auto varint = [&message] {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !message.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) break;
    }
    return value;
  };
  while (!message.empty()) {
    const std::uint64_t tag = varint();
    const std::uint64_t kind = tag & 7;
    if (kind == 0) {
      on_number(tag >> 3, varint());
    } else if (kind == 2) {
      const std::uint64_t size = varint();
      const std::string_view bytes = message.substr(0, size);
      on_bytes(tag >> 3, bytes);
      message.remove_prefix(bytes.size());
    } else if (kind == 1 || kind == 5) {
      message.remove_prefix(std::min<std::size_t>(message.size(), kind == 1 ? 8 : 4));
    } else {
      return;
    }
  }
}

// Whether a model is of BPE and takes text as it is: trainer_spec.model_type is 2, and of
// normalizer_spec precompiled_charsmap is empty, remove_extra_whitespaces false and
// escape_whitespaces not false.
bool is_plain_bpe(std::string_view model) {
  bool bpe = false, plain = true, removes_spaces = true;
  const auto trainer = [&](std::uint64_t field, std::uint64_t value) {
    if (field == 3) bpe = value == 2;
  };
  const auto normalizer = [&](std::uint64_t field, std::uint64_t value) {
    if (field == 4) removes_spaces = value != 0;
    if (field == 5 && value == 0) plain = false;
  };
  const auto charsmap = [&](std::uint64_t field, std::string_view bytes) {
    if (field == 2 && !bytes.empty()) plain = false;
  };
  read_message(
      model, [](std::uint64_t, std::uint64_t) {},
      [&](std::uint64_t field, std::string_view bytes) {
        if (field == 2) read_message(bytes, trainer, [](std::uint64_t, std::string_view) {});
        if (field == 3) read_message(bytes, normalizer, charsmap);
      });
  return bpe && plain && !removes_spaces;
}

// Whether a piece has the mark behind another character.
bool spans_words(std::string_view piece) {
  for (std::size_t at = 1; (at = piece.find(kMark, at)) != std::string_view::npos; ++at)
    if (at < kMark.size() || piece.substr(at - kMark.size(), kMark.size()) != kMark) return true;
  return false;
}

class SentencePiece : public Tokenizer {
 public:
  SentencePiece(const std::filesystem::path& path, const std::string& model)
      : file_(path.string()), fingerprint_(hash_text(model, hash_text("tokenizer.model", 0))) {
    load(model, processor_);
    load(model + std::string(kNoPrefix), joined_);
    prefixes_ = !processor_.EncodeAsIds("a").empty() &&
                processor_.EncodeAsPieces("a") != joined_.EncodeAsPieces("a");
    by_word_ = is_plain_bpe(model);
    bytes_.fill(-1);
    for (int id = 0; id < processor_.GetPieceSize(); ++id) look_at(id);
    // Unknown characters that stand together are one token, where there are no tokens of bytes.
    by_line_ = by_line_ && std::find(bytes_.begin(), bytes_.end(), -1) == bytes_.end();
    by_word_ = by_word_ && find(kMark).has_value();
    const DocumentTokens around =
        document_tokens(path.parent_path(), [this](std::string_view token) { return find(token); });
    begin_ = around.begin;
    end_ = around.end;
  }

  void encode(std::string_view text, std::vector<TokenId>& ids, bool special) const override {
    control_.split(
        text, special,
        [&](std::size_t begin, std::size_t end) { stretch(text.substr(begin, end - begin), ids); },
        [&](const AddedToken& token) { ids.push_back(token.id); });
  }

  std::string decode(std::span<const TokenId> ids, bool special) const override {
    std::string text;
    bool first = true;
    for (const TokenId id : ids) {
      if (id < 0 || id >= vocabulary())
        throw Error(Exit::data, printable(file_) + ": there is no token " + std::to_string(id) +
                                    "; the vocabulary has ids below " +
                                    std::to_string(vocabulary()));
      if (processor_.IsControl(id)) {
        if (special) text += processor_.IdToPiece(id);
        continue;
      }
      append_piece(id, first, text);
      first = false;
    }
    return text;
  }

  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::optional<TokenId> find(std::string_view token) const override {
    const int id = processor_.PieceToId(token);
    if (id < 0 || id >= processor_.GetPieceSize() || processor_.IdToPiece(id) != token)
      return std::nullopt;
    return id;
  }
  std::optional<TokenId> begin() const override { return begin_; }
  std::optional<TokenId> end() const override { return end_; }
  std::string describe() const override {
    return "SentencePiece of " + std::to_string(vocabulary()) + " tokens, " + printable(file_);
  }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  void load(const std::string& model, sentencepiece::SentencePieceProcessor& into) const {
    const auto status = into.LoadFromSerializedProto(model);
    if (!status.ok())
      throw Error(Exit::data, printable(file_) + ": no SentencePiece model: " + status.ToString());
  }

  void look_at(int id) {
    const std::string& piece = processor_.IdToPiece(id);
    by_word_ = by_word_ && !spans_words(piece);
    by_line_ = by_line_ && piece.find('\n') == std::string::npos;
    if (processor_.IsByte(id))
      if (const auto byte = fallback_byte(piece)) bytes_[static_cast<unsigned char>(*byte)] = id;
    if (processor_.IsControl(id) && !piece.empty())
      control_.add({.content = piece, .id = id, .special = true, .normalized = false}, piece);
  }

  // Bytes that are no UTF-8 are tokens by themselves; what follows them goes on without a prefix.
  void stretch(std::string_view text, std::vector<TokenId>& ids) const {
    bool joined = false;
    while (!text.empty()) {
      const std::size_t valid = valid_utf8(text);
      if (valid > 0) valid_stretch(text.substr(0, valid), joined, ids);
      if (valid == text.size()) break;
      const TokenId id = bytes_[static_cast<unsigned char>(text[valid])];
      ids.push_back(id >= 0 ? id : processor_.unk_id());
      text.remove_prefix(valid + 1);
      joined = true;
    }
  }

  // As in Note [Words of SentencePiece]: the library takes minutes for what the words take seconds.
  void valid_stretch(std::string_view text, bool joined, std::vector<TokenId>& ids) const {
    if (!by_word_) return whole(joined ? joined_ : processor_, text, ids);
    std::size_t begin = 0;
    const auto cut = [&](std::size_t end) {
      if (end > begin) word(text.substr(begin, end - begin), joined || begin > 0, ids);
      begin = end;
    };
    for (std::size_t at = 0; (at = text.find_first_of(" \n", at)) != std::string_view::npos; ++at) {
      const std::string_view before = text.substr(begin, at - begin);
      if (text[at] == ' ' && !before.ends_with(' ') && !before.ends_with(kMark)) cut(at);
      if (text[at] != '\n' || !by_line_) continue;
      cut(at);
      cut(at + 1);
    }
    cut(text.size());
  }

  void word(std::string_view text, bool joined, std::vector<TokenId>& ids) const {
    if (!joined || text.size() > WordCache::kLongest)
      return whole(joined ? joined_ : processor_, text, ids);
    WordCache& cache = WordCache::of(cache_id_);
    std::uint64_t hash = 0;
    std::size_t count = 0;
    if (const TokenId* const known = cache.find(text, hash, count)) {
      ids.insert(ids.end(), known, known + count);
      return;
    }
    const std::size_t start = ids.size();
    whole(joined_, text, ids);
    cache.add(text, hash, std::span(ids).subspan(start));
  }

  void whole(const sentencepiece::SentencePieceProcessor& processor, std::string_view text,
             std::vector<TokenId>& ids) const {
    thread_local std::vector<int> made;
    const auto status = processor.Encode(text, &made);
    if (!status.ok()) throw Error(Exit::data, printable(file_) + ": " + status.ToString());
    ids.insert(ids.end(), made.begin(), made.end());
  }

  void append_piece(TokenId id, bool first, std::string& text) const {
    if (processor_.IsUnknown(id)) {
      text += " \xE2\x81\x87 ";  // the library's " ⁇ "
      return;
    }
    std::string_view piece = processor_.IdToPiece(id);
    if (processor_.IsByte(id)) {
      if (const auto byte = fallback_byte(piece)) text += *byte;
      return;
    }
    if (first && prefixes_ && piece.starts_with(kMark)) piece.remove_prefix(kMark.size());
    replace_all(piece, kMark, " ", text);
  }

  std::string file_;
  std::uint64_t fingerprint_;
  sentencepiece::SentencePieceProcessor processor_, joined_;
  bool prefixes_ = false;
  bool by_word_ = false;  // nothing is ever merged across the start of a space
  bool by_line_ = true;   // nor with a line end
  std::uint64_t cache_id_ = WordCache::draw_id();
  AddedTokens control_;
  std::array<TokenId, 256> bytes_{};
  std::optional<TokenId> begin_, end_;
};

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file) {
  std::vector<std::uint8_t> bytes;
  try {
    read_file(file.string(), bytes);
  } catch (const Error& error) {
    throw Error(Exit::data, printable(file) + ": " + error.what());
  }
  return std::make_unique<SentencePiece>(file, std::string(bytes.begin(), bytes.end()));
}

}  // namespace trainer::data

#else

namespace trainer::data {

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file) {
  throw Error(Exit::data, printable(file) +
                              ": this program was built without the sentencepiece library "
                              "(libsentencepiece-dev); use the tokenizer.json of the same model");
}

}  // namespace trainer::data

#endif

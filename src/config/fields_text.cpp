#include "config/fields.h"

namespace trainer::config {
namespace {

constexpr const char* kTokenizer =
    "bytes, characters, or the path of a tokenizer.json, of a folder with one (or with vocab.json "
    "and merges.txt), or of a SentencePiece tokenizer.model.";
constexpr const char* kCache = "Keep the tokens in the user's cache folder for the next run.";

template <class S>
Fields<S> text_source() {
  return Fields<S>()
      .field("length", &S::length, integer(1, 1 << 24), "Tokens of a sample.")
      .field("packing", &S::packing,
             choice<Packing>({{"sequential", Packing::sequential},
                              {"documents", Packing::documents},
                              {"none", Packing::none}}),
             "How documents become samples. sequential: windows of one stream without overlap; "
             "documents: whole ones side by side that do not see each other; none: one each, "
             "padded.")
      .field("part", &S::part,
             choice<Part>({{"all", Part::all}, {"train", Part::train}, {"val", Part::val}}),
             "Which part of the data; val is its end.")
      .field("val_share", &S::val_share,
             number({.low = 0, .high = 1, .above = true, .below = true}),
             "Share of the tokens that belongs to val.")
      .field("drop_partial", &S::drop_partial, boolean(),
             "sequential: leave out the last sample where it is not full.");
}

Of<ChatTemplate> chat_template() {
  const auto role =
      Fields<RoleTemplate>()
          .required("role", &RoleTemplate::role, text(256), "Name of the role.")
          .field("prefix", &RoleTemplate::prefix, any_text(10'000), "What stands before a message.")
          .field("suffix", &RoleTemplate::suffix, any_text(10'000), "And after it.");
  using Kind = ChatTemplate::Kind;
  return Fields<ChatTemplate>()
      .field("kind", &ChatTemplate::kind,
             choice<Kind>({{"alpaca", Kind::alpaca},
                           {"chatml", Kind::chatml},
                           {"llama3", Kind::llama3},
                           {"plain", Kind::plain},
                           {"custom", Kind::custom}}),
             "What is written around the messages.")
      .field("roles", &ChatTemplate::roles, list(role.type(), 0, 20),
             "custom only: each role's prefix and suffix.")
      .short_for("kind")
      .type();
}

}  // namespace

Fields<TokenFiles> token_files() {
  return text_source<TokenFiles>()
      .required("path", &TokenFiles::path, text(4096), "A file, a folder, or a glob of files.")
      .field("tokenizer", &TokenFiles::tokenizer, maybe(tokenizer_name()),
             "What made them, for samples of text; null: what the folder itself says.");
}

Fields<TextFiles> text_files() {
  return text_source<TextFiles>()
      .required("path", &TextFiles::path, text(4096),
                "A file, a folder of .txt files, or a glob of files.")
      .field("tokenizer", &TextFiles::tokenizer, tokenizer_name(), kTokenizer)
      .field("document_separator", &TextFiles::document_separator, maybe(any_text(1000)),
             "Text between two documents of a file; null: each file is one document.")
      .field("cache", &TextFiles::cache, boolean(), kCache);
}

Fields<JsonlFiles> jsonl_files() {
  return text_source<JsonlFiles>()
      .required("path", &JsonlFiles::path, text(4096),
                "A file, a folder of .jsonl files, or a glob of files.")
      .field("tokenizer", &JsonlFiles::tokenizer, tokenizer_name(), kTokenizer)
      .field("text_key", &JsonlFiles::text_key, text(256), "Key of a document's text.")
      .field("chat", &JsonlFiles::chat, chat_template(),
             "For lines with messages, prompt and completion, or instruction and output.")
      .field("cache", &JsonlFiles::cache, boolean(), kCache);
}

Fields<TinyShakespeare> tiny_shakespeare() {
  return text_source<TinyShakespeare>().field("tokenizer", &TinyShakespeare::tokenizer,
                                              tokenizer_name(), kTokenizer);
}

}  // namespace trainer::config

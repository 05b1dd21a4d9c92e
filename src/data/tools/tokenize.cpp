#include "data/tools/tokenize.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/storage.h"
#include "data/sources/index_file.h"
#include "data/text/shard_manifest.h"
#include "data/text/text_corpus.h"
#include "data/text/tokenizing.h"
#include "data/tools/output_file.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using Progress = std::function<void(const TokenizeProgress&)>;

std::string shard_name(std::size_t index) {
  std::array<char, 40> name{};
  std::snprintf(name.data(), name.size(), "shard-%06zu%s", index, kShardExtension);
  return name.data();
}

std::unique_ptr<TextInput> open_input(const TokenizeOptions& options) {
  if (const auto* text = std::get_if<config::TextFiles>(&options.input))
    return make_text_input(*text, options.block_bytes);
  return make_jsonl_input(std::get<config::JsonlFiles>(options.input), options.block_bytes);
}

config::TextSource source_of(const TokenizeOptions& options) {
  return std::visit([](const auto& each) -> config::TextSource { return each; }, options.input);
}

std::string tokenizer_path(const config::Tokenizer& config) {
  using Kind = config::Tokenizer::Kind;
  if (config.kind == Kind::file) return fs::absolute(config.path).lexically_normal().string();
  return config.kind == Kind::bytes ? "bytes" : "characters";
}

class Tokenizing {
 public:
  Tokenizing(const TokenizeOptions& options, const Progress& progress)
      : options_(options), report_(progress), input_(open_input(options)) {
    open_output();
    tokenizer_ = open();
    describe();
    resume();
    state_.all_bytes = input_->bytes();
    for (const ShardManifest::Shard& shard : manifest_.shards) state_.tokens += shard.tokens;
    state_.shards = static_cast<std::int64_t>(manifest_.shards.size());
    state_.bytes = bytes_before(manifest_.next);
  }

  TokenizeProgress run() {
    if (manifest_.complete) return state_;
    start_shard();
    tokenize_blocks(*input_, *tokenizer_, manifest_.next, std::max(1, options_.workers),
                    [this](const TextBlock& block, TokenBlock&& tokens) {
                      take(block, tokens);
                      return true;
                    });
    finish();
    return state_;
  }

 private:
  void open_output() const {
    std::error_code failure;
    fs::create_directories(options_.output, failure);
    if (failure) throw_write_error(options_.output, failure.value());
  }

  std::shared_ptr<const Tokenizer> open() {
    const auto before = read_manifest(options_.output);
    std::optional<std::string> alphabet;
    // The alphabet was found by reading the whole input; the settings tell whether it is the same.
    if (before && !before->alphabet.empty()) alphabet = before->alphabet;
    OpenedTokenizer opened = open_tokenizer(source_of(options_), alphabet);
    manifest_.alphabet = std::move(opened.alphabet);
    return std::move(opened.tokenizer);
  }

  void describe() {
    Packer settings;
    settings.number(input_->settings());
    settings.number(tokenizer_->fingerprint());
    settings.number(options_.shard_tokens);
    settings.number(options_.block_bytes);
    manifest_.settings = hash_text(settings.bytes(), 0);
    manifest_.tokenizer = tokenizer_->fingerprint();
    manifest_.tokenizer_text = tokenizer_->describe();
    manifest_.tokenizer_path = std::visit(
        [](const auto& input) { return tokenizer_path(input.tokenizer); }, options_.input);
  }

  // Goes on with what an earlier run left.
  void resume() {
    auto before = read_manifest(options_.output);
    if (!before) return require_empty();
    if (before->settings != manifest_.settings) {
      throw Error(
          Exit::storage,
          printable(options_.output) +
              ": holds shards of another input, tokenizer or size, or the input has changed "
              "since; choose another folder or remove this one");
    }
    manifest_ = std::move(*before);
  }

  void require_empty() const {
    for (const auto& entry : fs::directory_iterator(options_.output)) {
      const std::string name = entry.path().filename().string();
      if (name.ends_with(".partial") || name == shard_name(0)) continue;
      throw Error(Exit::storage, printable(options_.output) + ": holds " + printable(name) +
                                     ", which does not belong to tokenised shards; choose another "
                                     "folder");
    }
  }

  std::uint64_t bytes_before(const TextPosition& position) const {
    std::uint64_t sum = position.offset;
    const auto& files = input_->files();
    for (std::size_t i = 0; i < std::min<std::size_t>(position.file, files.size()); ++i)
      sum += files[i]->bytes().size();
    return sum;
  }

  void start_shard() { shard_.emplace(tokenizer_->vocabulary() > 65536); }

  void take(const TextBlock& block, const TokenBlock& tokens) {
    shard_->append(tokens);
    state_.tokens += static_cast<std::int64_t>(tokens.ids.size());
    state_.bytes = bytes_before(block.next);
    next_ = block.next;
    if (shard_->size() >= options_.shard_tokens) write_shard();
    if (report_) report_(state_);
  }

  // First the shard, then the list: a shard that is not listed is made again.
  void write_shard() {
    const std::string name = shard_name(manifest_.shards.size());
    const fs::path path = options_.output / name;
    const fs::path temporary = path.string() + ".partial";
    std::error_code failure;
    fs::remove(temporary, failure);
    write_token_shard(temporary, *shard_, tokenizer_->fingerprint(), 0);
    fs::rename(temporary, path, failure);
    if (failure) throw_write_error(path, failure.value());
    sync_folder(options_.output);
    manifest_.shards.push_back(
        {name, shard_->size(), static_cast<std::int64_t>(shard_->ends().size())});
    manifest_.next = next_;
    write_manifest(options_.output, manifest_);
    ++state_.shards;
    start_shard();
  }

  void finish() {
    if (shard_->size() > 0) write_shard();
    if (manifest_.shards.empty()) {
      throw Error(Exit::data, input_->name() + ": the corpus is empty: its files make no tokens");
    }
    manifest_.complete = true;
    write_manifest(options_.output, manifest_);
    state_.bytes = state_.all_bytes;
    if (report_) report_(state_);
  }

  const TokenizeOptions& options_;
  const Progress& report_;
  std::unique_ptr<TextInput> input_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ShardManifest manifest_;
  std::optional<TokenArrays> shard_;
  TextPosition next_;
  TokenizeProgress state_;
};

}  // namespace

TokenizeProgress tokenize(const TokenizeOptions& options, const Progress& progress) {
  return Tokenizing(options, progress).run();
}

}  // namespace trainer::data

// Shared by the tests of text data.
#pragma once

#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "data/text/corpus.h"
#include "data/text/tokenizer.h"
#include "data/text/windows.h"
#include "support.h"
#include "support/errors.h"

namespace trainer::data {

// A byte a token, but for: two equal letters, which are one token (256 + the letter), so that texts
// cannot be cut anywhere; and <name> with `special`, which is token 600 + the length of the name.
class FakeTokenizer : public Tokenizer {
 public:
  std::optional<TokenId> first, last;
  bool marks_starts = false;  // each call begins with a token of its own, as some real ones do
  std::int64_t size = 700;
  std::uint64_t print = 77;
  mutable std::atomic<std::int64_t> encoded{0};  // bytes

  void encode(std::string_view text, std::vector<TokenId>& ids, bool special) const override {
    encoded += static_cast<std::int64_t>(text.size());
    if (marks_starts) ids.push_back(599);
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto byte = static_cast<std::uint8_t>(text[i]);
      const std::size_t close = special && byte == '<' ? text.find('>', i) : std::string::npos;
      if (close != std::string::npos) {
        ids.push_back(static_cast<TokenId>(600 + (close - i - 1)));
        i = close;
      } else if (i + 1 < text.size() && text[i + 1] == text[i]) {
        ids.push_back(256 + byte);
        ++i;
      } else {
        ids.push_back(byte);
      }
    }
  }
  std::string decode(std::span<const TokenId> ids, bool /*special*/) const override {
    std::string text;
    for (const TokenId id : ids) {
      if (id < 512) text += static_cast<char>(id % 256);
      if (id >= 256 && id < 512) text += static_cast<char>(id % 256);
    }
    return text;
  }
  std::int64_t vocabulary() const override { return size; }
  std::optional<TokenId> find(std::string_view /*token*/) const override { return std::nullopt; }
  std::optional<TokenId> begin() const override { return first; }
  std::optional<TokenId> end() const override { return last; }
  std::string describe() const override { return "fake"; }
  std::uint64_t fingerprint() const override { return print; }

  std::vector<TokenId> ids(std::string_view text, bool special = false) const {
    std::vector<TokenId> found;
    encode(text, found, special);
    return found;
  }
};

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline TokenBlock block_of(std::vector<TokenId> ids, std::vector<std::uint64_t> ends,
                           std::vector<std::uint8_t> learnt = {}) {
  return {std::move(ids), std::move(ends), std::move(learnt)};
}

inline TokenCorpus corpus_of(const TokenBlock& block, bool wide = false) {
  auto arrays = std::make_shared<TokenArrays>(wide);
  arrays->append(block);
  return TokenCorpus({segment_of(arrays, "memory", 1)}, "memory");
}

// Tokens 1, 2, ... in documents of these sizes.
inline TokenCorpus counting_corpus(const std::vector<std::int64_t>& documents) {
  TokenBlock block;
  for (const std::int64_t size : documents) {
    for (std::int64_t i = 0; i < size; ++i)
      block.ids.push_back(static_cast<TokenId>(block.ids.size() + 1));
    block.ends.push_back(block.ids.size());
  }
  return corpus_of(block, /*wide=*/true);
}

inline std::vector<std::int32_t> all_of(const TokenCorpus& corpus) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(corpus.size()));
  corpus.read(0, corpus.size(), tokens.data());
  return tokens;
}

inline std::vector<std::uint8_t> learnt_of(const TokenCorpus& corpus) {
  std::vector<std::uint8_t> learnt(static_cast<std::size_t>(corpus.size()));
  corpus.read_learnt(0, corpus.size(), learnt.data());
  return learnt;
}

inline std::vector<std::int64_t> document_ends(const TokenCorpus& corpus) {
  std::vector<std::int64_t> ends;
  for (std::int64_t i = 0; i < corpus.documents(); ++i) ends.push_back(corpus.document(i).end);
  return ends;
}

// With a cache folder of its own.
class TextTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    cache_ = folder_ / "cache";
    ::setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    FolderTest::TearDown();
  }
  // As if it had been written an hour ago, so that what is found out about it may be kept.
  static void age(const std::filesystem::path& file) {
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }

  std::filesystem::path cache_;
};

}  // namespace trainer::data

#include "data/text/token_file.h"

#include <gmock/gmock.h>

#include <numeric>

#include "text_test.h"

namespace trainer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TokenFile : public TextTest {
 protected:
  // llm.c's header of 256 int32, and what follows.
  std::filesystem::path write_llmc(const std::string& name, std::int32_t magic,
                                   std::int32_t version, std::int32_t tokens,
                                   const std::string& rest) const {
    std::vector<std::int32_t> header(256, 0);
    header[0] = magic;
    header[1] = version;
    header[2] = tokens;
    return write(name, raw_bytes(header) + rest);
  }
  static std::string error_at(const std::filesystem::path& path) {
    return error_of(Exit::data, [&path] { open_tokens(path); });
  }
  std::filesystem::path shard(const std::string& name, const TokenBlock& block,
                              bool wide = false) const {
    TokenArrays arrays(wide);
    arrays.append(block);
    write_token_shard(folder_ / name, arrays, 5, 9);
    return folder_ / name;
  }
};

TEST_F(TokenFile, ReadsNanoGptsRawTokens) {
  const auto path = write("train.bin", raw_bytes<std::uint16_t>({5, 50256, 7, 65535}));
  const TokenCorpus corpus = open_tokens(path);
  EXPECT_THAT(all_of(corpus), ElementsAre(5, 50256, 7, 65535));
  EXPECT_EQ(corpus.largest(), 65535);
  EXPECT_FALSE(corpus.has_documents());
  EXPECT_EQ(corpus.tokenizer(), std::nullopt);
  EXPECT_EQ(corpus.describe(), "tokens " + path.string() + ": 4 tokens, ids up to 65535");
}

TEST_F(TokenFile, ReadsLlmCsTokens) {
  const auto gpt2 = write_llmc("a.bin", 20240520, 1, 3, raw_bytes<std::uint16_t>({50256, 1, 2}));
  EXPECT_THAT(all_of(open_tokens(gpt2)), ElementsAre(50256, 1, 2));
  const auto llama = write_llmc("b.bin", 20240801, 7, 2, raw_bytes<std::uint32_t>({128000, 70000}));
  EXPECT_THAT(all_of(open_tokens(llama)), ElementsAre(128000, 70000));
  EXPECT_EQ(open_tokens(llama).largest(), 128000);
}

TEST_F(TokenFile, ReadsLlmCsShardsInTheOrderOfTheirNames) {
  write_llmc("fineweb_000002.bin", 20240520, 1, 2, raw_bytes<std::uint16_t>({3, 4}));
  write_llmc("fineweb_000001.bin", 20240520, 1, 2, raw_bytes<std::uint16_t>({1, 2}));
  write("other.bin", raw_bytes<std::uint16_t>({9}));
  write("notes.txt", "no tokens");
  EXPECT_THAT(all_of(open_tokens(folder_ / "fineweb_*.bin")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(all_of(open_tokens(folder_)), ElementsAre(1, 2, 3, 4, 9));
}

TEST_F(TokenFile, RefusesFilesThatAreCutOff) {
  EXPECT_THAT(
      error_at(write("odd.bin", "12345")),
      AllOf(HasSubstr("odd.bin: the file has 5 bytes and ends within the token at offset 4"),
            HasSubstr("a token takes 2 bytes")));
  EXPECT_THAT(error_at(write_llmc("l.bin", 20240801, 7, 2, "1234567")),
              HasSubstr("ends within the token at offset 1028 (a token takes 4 bytes)"));
  EXPECT_THAT(error_at(write_llmc("s.bin", 20240520, 1, 4, raw_bytes<std::uint16_t>({1, 2, 3}))),
              HasSubstr("llm.c's header (at offset 8) names 4 tokens, but the file holds 3"));
  EXPECT_THAT(error_at(write_llmc("v.bin", 20240520, 2, 1, raw_bytes<std::uint16_t>({1}))),
              HasSubstr("llm.c's header (at offset 4) names version 2"));
}

TEST_F(TokenFile, RefusesWhatIsEmptyOrMissing) {
  EXPECT_THAT(error_at(write("empty.bin", "")), HasSubstr("empty.bin: the file is empty"));
  EXPECT_THAT(error_at(write_llmc("none.bin", 20240520, 1, 0, "")),
              HasSubstr("none.bin: there are no tokens in it"));
  EXPECT_THAT(error_at(folder_ / "missing.bin"), HasSubstr("missing.bin: no such file or folder"));
  EXPECT_THAT(error_at(folder_ / "x*.bin"), HasSubstr("no file's name matches"));
  std::filesystem::create_directories(folder_ / "sub");
  EXPECT_THAT(error_at(folder_ / "sub"), HasSubstr("this folder holds no .bin or .tokens files"));
}

TEST_F(TokenFile, KeepsWhatItFoundInARawFile) {
  const auto path = write("train.bin", raw_bytes<std::uint16_t>({1, 2}));
  age(path);
  const std::uint64_t first = open_tokens(path).fingerprint();
  EXPECT_FALSE(std::filesystem::is_empty(cache_ / "trainer"));
  EXPECT_EQ(open_tokens(path).fingerprint(), first);
  write("train.bin", raw_bytes<std::uint16_t>({1, 3}));
  EXPECT_NE(open_tokens(path).fingerprint(), first);
  EXPECT_EQ(open_tokens(path).largest(), 3);
}

TEST_F(TokenFile, WritesShardsThatItReads) {
  for (const bool wide : {false, true}) {
    const auto path =
        shard(wide ? "w.tokens" : "n.tokens",
              block_of({7, wide ? 70000 : 3, 9, 11, 2}, {2, 5}, {1, 0, 0, 1, 1}), wide);
    const TokenCorpus corpus = open_tokens(path);
    EXPECT_THAT(all_of(corpus), ElementsAre(7, wide ? 70000 : 3, 9, 11, 2));
    EXPECT_THAT(document_ends(corpus), ElementsAre(2, 5));
    EXPECT_THAT(learnt_of(corpus), ElementsAre(1, 0, 0, 1, 1));
    EXPECT_TRUE(corpus.masked());
    EXPECT_EQ(corpus.tokenizer(), 5);
    const TokenSegment segment = open_token_file(path);
    EXPECT_EQ(origin_of(segment), 9);
    EXPECT_TRUE(is_whole(segment));
    EXPECT_EQ(std::filesystem::file_size(path) % 8, std::size_t{1});
  }
}

TEST_F(TokenFile, JoinsADocumentThatGoesOnInTheNextShard) {
  shard("1.tokens", block_of({1, 2, 3}, {2}));
  shard("2.tokens", block_of({4, 5, 6}, {1, 3}, {1, 0, 1}));
  shard("3.tokens", block_of({7}, {}));
  const TokenCorpus corpus = open_tokens(folder_);
  EXPECT_THAT(document_ends(corpus), ElementsAre(2, 4, 6, 7));
  EXPECT_THAT(learnt_of(corpus), ElementsAre(1, 1, 1, 1, 0, 1, 1));
}

TEST_F(TokenFile, RefusesDamagedShards) {
  const auto path = shard("s.tokens", block_of({1, 2, 3, 4}, {2, 4}));
  const std::string whole = read_bytes(path);
  EXPECT_THAT(error_at(write("short.tokens", whole.substr(0, 133))),
              AllOf(HasSubstr("the header names 4 tokens and 2 documents"),
                    HasSubstr("but the file has 133; it ends at offset 133, in token 2 of 4")));
  EXPECT_THAT(error_at(write("ends.tokens", whole.substr(0, whole.size() - 8))),
              HasSubstr("which take 152 bytes, but the file has 144"));
  EXPECT_THAT(error_at(write("head.tokens", whole.substr(0, 100))),
              HasSubstr("ends at offset 100, within its header"));
  std::string changed = whole;
  changed[20] = 9;
  EXPECT_THAT(error_at(write("damaged.tokens", changed)), HasSubstr("the header is damaged"));
  changed = whole;
  changed[8] = 2;
  EXPECT_THAT(error_at(write("new.tokens", changed)), HasSubstr("the shard is of version 2"));
  changed = whole;
  changed[136] = 5;  // the first document's end
  EXPECT_THAT(error_at(write("order.tokens", changed)),
              HasSubstr("the end of document 0 at offset 136 is out of order"));
  changed = whole;
  changed[128] = 3;  // a token
  EXPECT_FALSE(is_whole(open_token_file(write("token.tokens", changed))));
}

TEST_F(TokenFile, NamesATokenOutsideTheVocabulary) {
  std::vector<std::uint16_t> tokens(100);
  std::iota(tokens.begin(), tokens.end(), std::uint16_t{0});
  const TokenCorpus raw = open_tokens(write("r.bin", raw_bytes(tokens)));
  EXPECT_NO_THROW(raw.require_vocabulary(100));
  EXPECT_THAT(error_of(Exit::data, [&] { raw.require_vocabulary(60); }),
              HasSubstr("r.bin: the token at offset 120 is 60, but the vocabulary has 60 ids"));
  const TokenCorpus ours = open_tokens(shard("s.tokens", block_of({1, 7, 8}, {3})));
  EXPECT_NO_THROW(ours.require_vocabulary(9));
  EXPECT_THAT(error_of(Exit::data, [&] { ours.require_vocabulary(7); }),
              HasSubstr("s.tokens: the token at offset 130 is 7"));
}

}  // namespace
}  // namespace trainer::data

#include "data/tools/tokenize.h"

#include <gmock/gmock.h>

#include <map>
#include <stdexcept>

#include "data/text/shard_manifest.h"
#include "data/text/text_corpus.h"
#include "text/text_test.h"

namespace trainer::data {
namespace {

using testing::HasSubstr;

class Tokenize : public TextTest {
 protected:
  void SetUp() override {
    TextTest::SetUp();
    std::string lines;
    for (int i = 0; i < 900; ++i) {
      lines += "{\"text\": \"line " + std::to_string(i * 7919) +
               std::string(static_cast<std::size_t>(i % 40), 'x') + "\"}\n";
    }
    write("input/a.jsonl", lines);
    write("input/b.jsonl", "{\"prompt\": \"Question\", \"completion\": \"Answer\"}\n");
  }

  TokenizeOptions options(const std::string& output, int workers = 1) const {
    config::JsonlFiles source;
    source.path = folder_ / "input";
    TokenizeOptions options{source, folder_ / output};
    options.workers = workers;
    options.shard_tokens = 3000;
    options.block_bytes = 700;
    return options;
  }

  std::map<std::string, std::string> files(const std::string& output) const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / output))
      found[entry.path().filename()] = read_bytes(entry.path());
    return found;
  }

  TokenCorpus wanted() const {
    const config::TextSource source = std::get<config::JsonlFiles>(options("").input);
    return open_corpus(source, open_tokenizer(source).tokenizer.get());
  }
};

TEST_F(Tokenize, WritesWhatTheSourceGives) {
  const TokenizeProgress done = tokenize(options("out"));
  EXPECT_GT(done.shards, 5);
  EXPECT_EQ(done.bytes, done.all_bytes);
  const TokenCorpus corpus = open_tokens(folder_ / "out");
  EXPECT_EQ(done.tokens, corpus.size());
  EXPECT_EQ(all_of(corpus), all_of(wanted()));
  EXPECT_EQ(document_ends(corpus), document_ends(wanted()));
  EXPECT_EQ(learnt_of(corpus), learnt_of(wanted()));
  EXPECT_TRUE(corpus.masked());
  EXPECT_EQ(corpus.tokenizer(), wanted().tokenizer());
  config::TokenFiles source;
  source.path = folder_ / "out";
  const OpenedTokenizer opened = open_tokenizer(source);
  ASSERT_NE(opened.tokenizer, nullptr);
  EXPECT_EQ(opened.tokenizer->fingerprint(), corpus.tokenizer());
}

TEST_F(Tokenize, DoesNotDependOnTheWorkers) {
  tokenize(options("one"));
  for (const int workers : {2, 5}) {
    const std::string output = "many" + std::to_string(workers);
    tokenize(options(output, workers));
    EXPECT_EQ(files(output), files("one"));
  }
}

TEST_F(Tokenize, GoesOnWhereItWasStopped) {
  tokenize(options("whole"));
  int stops = 0;
  for (std::int64_t shards = 1; shards < 20; shards += 2) {
    try {
      tokenize(options("out", 3), [&](const TokenizeProgress& progress) {
        if (progress.shards >= shards && progress.bytes < progress.all_bytes)
          throw std::runtime_error("killed");
      });
    } catch (const std::runtime_error&) {
      ++stops;
      EXPECT_THAT(error_of(Exit::data, [&] { open_tokens(folder_ / "out"); }),
                  HasSubstr("tokenising was not finished (" + std::to_string(shards) +
                            " shards are done); run the same"));
      // What a kill within a write leaves.
      write("out/shard-000099.tokens.partial", "half");
      write("out/tokens.json.partial", "half");
    }
  }
  EXPECT_GT(stops, 2);
  std::filesystem::remove(folder_ / "out" / "shard-000099.tokens.partial");
  EXPECT_EQ(files("out"), files("whole"));
}

TEST_F(Tokenize, MakesAShardThatIsNotListedAnew) {
  tokenize(options("whole"));
  std::int64_t tokens = 0;
  EXPECT_THROW(tokenize(options("out"),
                        [&](const TokenizeProgress& progress) {
                          tokens = progress.tokens;
                          if (progress.shards == 1) throw std::runtime_error("killed");
                        }),
               std::runtime_error);
  write("out/shard-000001.tokens", "of a run that was killed before it was listed");
  TokenizeProgress last;
  tokenize(options("out"), [&](const TokenizeProgress& progress) {
    if (last.tokens == 0) {
      EXPECT_GT(progress.tokens, tokens);
    }
    last = progress;
  });
  EXPECT_EQ(last.bytes, last.all_bytes);
  EXPECT_EQ(files("out"), files("whole"));
}

TEST_F(Tokenize, DoesNothingWhereAllIsDone) {
  tokenize(options("out"));
  const auto before = std::filesystem::last_write_time(folder_ / "out" / kManifestName);
  bool called = false;
  const TokenizeProgress done =
      tokenize(options("out"), [&](const TokenizeProgress& /*progress*/) { called = true; });
  EXPECT_FALSE(called);
  EXPECT_EQ(done.tokens, wanted().size());
  EXPECT_EQ(done.bytes, done.all_bytes);
  EXPECT_EQ(std::filesystem::last_write_time(folder_ / "out" / kManifestName), before);
}

TEST_F(Tokenize, RefusesAnOutputOfSomethingElse) {
  tokenize(options("out"));
  TokenizeOptions other = options("out");
  other.shard_tokens = 4000;
  EXPECT_THAT(error_of(Exit::storage, [&] { tokenize(other); }),
              HasSubstr("out: holds shards of another input, tokenizer or size"));
  write("input/b.jsonl", "{\"prompt\": \"Changed\", \"completion\": \"Answer\"}\n");
  EXPECT_THAT(error_of(Exit::storage, [&] { tokenize(options("out")); }),
              HasSubstr("or the input has changed since; choose another folder"));
  write("full/holiday.jpg", "");
  EXPECT_THAT(error_of(Exit::storage, [&] { tokenize(options("full")); }),
              HasSubstr("full: holds holiday.jpg, which does not belong to tokenised shards"));
}

TEST_F(Tokenize, NamesAMissingShard) {
  tokenize(options("out"));
  std::filesystem::remove(folder_ / "out" / "shard-000003.tokens");
  EXPECT_THAT(error_of(Exit::data, [&] { open_tokens(folder_ / "out"); }),
              HasSubstr("out: the shard shard-000003.tokens is missing ("));
  write("out/tokens.json", "{}");
  EXPECT_THAT(error_of(Exit::data, [&] { open_tokens(folder_ / "out"); }),
              HasSubstr("tokens.json: is not what `trainer data tokenize` writes"));
}

TEST_F(Tokenize, KeepsWholeShardsBeforeABadLine) {
  const std::string before = read_bytes(folder_ / "input" / "a.jsonl");
  write("input/a.jsonl", before + "{\n");
  EXPECT_THAT(error_of(Exit::data, [&] { tokenize(options("out", 2)); }),
              HasSubstr("a.jsonl:901: the line is no valid JSON"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "shard-000002.tokens"));
}

TEST_F(Tokenize, CharactersKeepTheirAlphabet) {
  TokenizeOptions characters = options("out");
  auto& source = std::get<config::JsonlFiles>(characters.input);
  source.tokenizer.kind = config::Tokenizer::Kind::characters;
  tokenize(characters);
  config::TokenFiles tokens;
  tokens.path = folder_ / "out";
  const OpenedTokenizer opened = open_tokenizer(tokens);
  EXPECT_THAT(opened.alphabet, HasSubstr("0123456789"));
  EXPECT_EQ(open_corpus(tokens, opened.tokenizer.get()).size(), wanted().size());
}

}  // namespace
}  // namespace trainer::data

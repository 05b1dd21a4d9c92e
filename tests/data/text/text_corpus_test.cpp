#include "data/text/text_corpus.h"

#include <gmock/gmock.h>

#include "data/text/text_input.h"
#include "data/text/tokenizing.h"
#include "text_test.h"

namespace trainer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class TextCorpus : public TextTest {
 protected:
  static config::TextFiles text(const std::filesystem::path& path) {
    config::TextFiles source;
    source.path = path.string();
    return source;
  }
  static config::JsonlFiles jsonl(
      const std::filesystem::path& path,
      config::ChatTemplate::Kind kind = config::ChatTemplate::Kind::plain) {
    config::JsonlFiles source;
    source.path = path.string();
    source.chat.kind = kind;
    return source;
  }
  std::string text_of(const TokenCorpus& corpus) const {
    std::vector<TokenId> ids = all_of(corpus);
    return tokenizer_.decode(ids, false);
  }
  // The text of the tokens that are learnt.
  std::string learnt_text(const TokenCorpus& corpus) const {
    const std::vector<std::int32_t> ids = all_of(corpus);
    const std::vector<std::uint8_t> learnt = learnt_of(corpus);
    std::vector<TokenId> found;
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (learnt[i] != 0) found.push_back(ids[i]);
    return tokenizer_.decode(found, false);
  }
  static TokenBlock all_blocks(const TextInput& input, const Tokenizer& tokenizer, int workers,
                               int* blocks = nullptr) {
    TokenBlock all;
    tokenize_blocks(input, tokenizer, {}, workers,
                    [&](const TextBlock& /*block*/, TokenBlock&& tokens) {
                      for (const std::uint64_t end : tokens.ends)
                        all.ends.push_back(all.ids.size() + end);
                      all.ids.insert(all.ids.end(), tokens.ids.begin(), tokens.ids.end());
                      if (blocks != nullptr) ++*blocks;
                      return true;
                    });
    return all;
  }
  int cached_files() const {
    if (!std::filesystem::exists(cache_ / "trainer")) return 0;
    int count = 0;
    for ([[maybe_unused]] const auto& each :
         std::filesystem::directory_iterator(cache_ / "trainer"))
      ++count;
    return count;
  }

  FakeTokenizer tokenizer_;
};

TEST_F(TextCorpus, EachFileIsADocument) {
  write("b.txt", "two");
  write("a.txt", "one");
  write("sub/c.txt", "three");
  write("empty.txt", "");
  write("notes.md", "left out");
  tokenizer_.first = 520;
  tokenizer_.last = 521;
  const TokenCorpus corpus = open_corpus(text(folder_), &tokenizer_);
  EXPECT_THAT(all_of(corpus), ElementsAre(520, 'o', 'n', 'e', 521, 520, 't', 'w', 'o', 521, 520,
                                          't', 'h', 'r', 256 + 'e', 521));
  EXPECT_THAT(document_ends(corpus), ElementsAre(5, 10, 16));
  EXPECT_EQ(corpus.tokenizer(), 77);
  EXPECT_FALSE(corpus.masked());
}

TEST_F(TextCorpus, ATokenThatIsFirstAndLastStandsAfterDocuments) {
  tokenizer_.first = tokenizer_.last = 520;
  EXPECT_THAT(all_of(open_corpus(text(write("a.txt", "x")), &tokenizer_)), ElementsAre('x', 520));
}

TEST_F(TextCorpus, SplitsFilesAtASeparator) {
  config::TextFiles source = text(write("a.txt", "||one||two||||x||"));
  source.document_separator = "||";
  tokenizer_.last = 521;
  const TokenCorpus corpus = open_corpus(source, &tokenizer_);
  EXPECT_EQ(text_of(corpus), "onetwox");
  EXPECT_THAT(document_ends(corpus), ElementsAre(4, 8, 10));
}

// Lines with letters in twos at their ends and begins, blank lines and lines of spaces.
std::string long_text(int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) {
    text += std::string(static_cast<std::size_t>(i * 37 % 23), static_cast<char>('a' + i % 26));
    text += i % 5 == 0 ? "\n\n" : i % 7 == 0 ? " \n" : "\n";
  }
  return text;
}

TEST_F(TextCorpus, CutsAreNotSeenInTheTokens) {
  const std::string whole = long_text(3000);
  const auto input = make_text_input(text(write("a.txt", whole)), 256);
  tokenizer_.last = 521;
  std::vector<TokenId> wanted = tokenizer_.ids(whole);
  wanted.push_back(521);
  int blocks = 0;
  const TokenBlock all = all_blocks(*input, tokenizer_, 3, &blocks);
  EXPECT_GT(blocks, 50);
  EXPECT_EQ(all.ids, wanted);
  EXPECT_THAT(all.ends, ElementsAre(wanted.size()));
}

TEST_F(TextCorpus, ATokenizerThatSeesStartsGetsWholeDocuments) {
  const std::string whole = long_text(300);
  const auto input = make_text_input(text(write("a.txt", whole)), 64);
  tokenizer_.marks_starts = true;
  int blocks = 0;
  EXPECT_EQ(all_blocks(*input, tokenizer_, 2, &blocks).ids, tokenizer_.ids(whole));
  EXPECT_EQ(blocks, 1);
}

TEST_F(TextCorpus, BlocksOfDocumentsDoNotDependOnTheirSizeOrTheThreads) {
  std::string whole;
  for (int i = 0; i < 200; ++i)
    whole += std::string(static_cast<std::size_t>(i * 31 % 90), static_cast<char>('a' + i % 7)) +
             "\n<END>\n" + (i % 9 == 0 ? long_text(60) : "");
  write("a.txt", whole);
  write("b.txt", "another");
  config::TextFiles source = text(folder_);
  source.document_separator = "<END>\n";
  tokenizer_.last = 521;
  const TokenBlock wanted = all_blocks(*make_text_input(source), tokenizer_, 1);
  EXPECT_GT(wanted.ends.size(), std::size_t{190});
  for (const std::uint64_t bytes : {64, 100, 1000}) {
    for (const int workers : {1, 4}) {
      const TokenBlock got = all_blocks(*make_text_input(source, bytes), tokenizer_, workers);
      EXPECT_EQ(got.ids, wanted.ids) << bytes;
      EXPECT_EQ(got.ends, wanted.ends) << bytes;
    }
  }
}

TEST_F(TextCorpus, RefusesAnEmptyCorpus) {
  EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(text(write("a.txt", "")), &tokenizer_); }),
              HasSubstr("a.txt: the corpus is empty: the file has no bytes"));
  config::TextFiles source = text(write("b.txt", "||||"));
  source.document_separator = "||";
  EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(source, &tokenizer_); }),
              HasSubstr("b.txt: the corpus is empty: its files make no tokens"));
  std::filesystem::create_directories(folder_ / "sub");
  EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(text(folder_ / "sub"), &tokenizer_); }),
              HasSubstr("this folder holds no .txt files"));
  EXPECT_THAT(
      error_of(Exit::data, [&] { open_corpus(jsonl(write("c.jsonl", "\n \n")), &tokenizer_); }),
      HasSubstr("c.jsonl: the corpus is empty"));
}

TEST_F(TextCorpus, KeepsTokensInTheCacheFolder) {
  const auto path = write("a.txt", long_text(50));
  age(path);
  const TokenCorpus first = open_corpus(text(path), &tokenizer_);
  EXPECT_EQ(cached_files(), 1);
  tokenizer_.encoded = 0;
  const TokenCorpus second = open_corpus(text(path), &tokenizer_);
  EXPECT_EQ(tokenizer_.encoded, 0);
  EXPECT_EQ(all_of(second), all_of(first));
  EXPECT_EQ(document_ends(second), document_ends(first));
  EXPECT_EQ(second.fingerprint(), first.fingerprint());
  EXPECT_EQ(second.describe(), first.describe());
}

TEST_F(TextCorpus, MakesTokensAnewWhereAnythingChanged) {
  const auto path = write("a.txt", "some text");
  age(path);
  const auto encodes = [&](const config::TextFiles& source) {
    tokenizer_.encoded = 0;
    open_corpus(source, &tokenizer_);
    return tokenizer_.encoded > 0;
  };
  EXPECT_TRUE(encodes(text(path)));
  EXPECT_FALSE(encodes(text(path)));
  tokenizer_.print = 78;
  EXPECT_TRUE(encodes(text(path)));
  config::TextFiles separated = text(path);
  separated.document_separator = " ";
  EXPECT_TRUE(encodes(separated));
  write("a.txt", "other txt");  // of the same size
  EXPECT_TRUE(encodes(text(path)));
  // It changed just now, and so may change unseen: nothing is kept.
  EXPECT_TRUE(encodes(text(path)));
  age(path);
  EXPECT_TRUE(encodes(text(path)));
  config::TextFiles uncached = text(path);
  uncached.cache = false;
  EXPECT_TRUE(encodes(uncached));
}

TEST_F(TextCorpus, MakesTokensAnewWhereTheCacheIsDamaged) {
  const auto path = write("a.txt", "some text");
  age(path);
  open_corpus(text(path), &tokenizer_);
  for (const auto& entry : std::filesystem::directory_iterator(cache_ / "trainer")) {
    std::string bytes = read_bytes(entry.path());
    bytes[130] = 'X';
    write_bytes(entry.path(), bytes);
  }
  EXPECT_EQ(text_of(open_corpus(text(path), &tokenizer_)), "some text");
}

TEST_F(TextCorpus, ReadsTextOfJsonLines) {
  const auto path = write("a.jsonl", "{\"text\": \"one\", \"id\": 1}\n\n{\"text\":\"tw\\u006f\"}");
  tokenizer_.last = 521;
  const TokenCorpus corpus = open_corpus(jsonl(path), &tokenizer_);
  EXPECT_EQ(text_of(corpus), "onetwo");
  EXPECT_THAT(document_ends(corpus), ElementsAre(4, 8));
  EXPECT_FALSE(corpus.masked());
  config::JsonlFiles other = jsonl(write("b.jsonl", "{\"content\": \"x\"}\n"));
  other.text_key = "content";
  EXPECT_EQ(text_of(open_corpus(other, &tokenizer_)), "x");
}

TEST_F(TextCorpus, NamesTheLineThatIsWrong) {
  const std::string good = "{\"text\": \"x\"}\n";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"{\"text\": \"x\"", "the line is no valid JSON (at its byte "},
      {"[1]", "the line is no JSON object"},
      {"{\"text\": 5}", "the value of \"text\" is no text"},
      {"{\"txt\": \"\"}", "there is neither \"text\", nor \"messages\", nor \"prompt\""},
      {"{\"messages\": []}", "the value of \"messages\" is no list of {role, content}"},
      {"{\"messages\": [5]}", "an entry of \"messages\" is no object"},
      {"{\"messages\": [{\"role\": \"user\"}]}", "there is no \"content\" in a message"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}",
       "no message is of the role \"assistant\": there is nothing to learn"},
      {"{\"instruction\": \"x\", \"input\": 1, \"output\": \"y\"}",
       "the value of \"input\" is no text"},
      {"{\"text\": \"\xff\"}", "the line is no valid JSON"},
  };
  for (const auto& [line, message] : cases) {
    const auto path = write("a.jsonl", good + "\n" + good + line + "\n" + good);
    EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(jsonl(path), &tokenizer_); }),
                AllOf(HasSubstr("a.jsonl:4: "), HasSubstr(message)));
  }
}

TEST_F(TextCorpus, TheFirstWrongLineIsNamedWhateverTheThreads) {
  std::string lines;
  for (int i = 0; i < 500; ++i) lines += i % 100 == 77 ? "{}\n" : "{\"text\": \"x\"}\n";
  const auto input = make_jsonl_input(jsonl(write("a.jsonl", lines)), 64);
  for (const int workers : {1, 4})
    EXPECT_THAT(error_of(Exit::data, [&] { all_blocks(*input, tokenizer_, workers); }),
                HasSubstr("a.jsonl:78: "));
}

constexpr const char* kChat =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be good.\"},"
    "{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \" Yo\"},"
    "{\"role\": \"user\", \"content\": \"<x>\"}, {\"role\": \"assistant\", \"content\": \"Ok\"}]}";

TEST_F(TextCorpus, ChatMlLearnsAnswersAndTheirEnds) {
  const auto path = write("a.jsonl", kChat);
  const TokenCorpus corpus =
      open_corpus(jsonl(path, config::ChatTemplate::Kind::chatml), &tokenizer_);
  // Of the fake tokenizer 612 is <|im_start|>, 610 is <|im_end|>.
  std::vector<TokenId> wanted;
  std::vector<std::uint8_t> learnt;
  const auto add = [&](const std::string& text, bool special, bool learn) {
    tokenizer_.encode(text, wanted, special);
    learnt.resize(wanted.size(), learn ? 1 : 0);
  };
  add("<|im_start|>system\n", true, false);
  add("Be good.", false, false);
  add("<|im_end|>", true, false);
  add("\n", true, false);
  add("<|im_start|>user\n", true, false);
  add("Hi", false, false);
  add("<|im_end|>", true, false);
  add("\n", true, false);
  add("<|im_start|>assistant\n", true, false);
  add(" Yo", false, true);
  add("<|im_end|>", true, true);
  add("\n", true, false);
  add("<|im_start|>user\n", true, false);
  add("<x>", false, false);  // spelt out in the data: no special token
  add("<|im_end|>", true, false);
  add("\n", true, false);
  add("<|im_start|>assistant\n", true, false);
  add("Ok", false, true);
  add("<|im_end|>", true, true);
  add("\n", true, false);
  EXPECT_EQ(all_of(corpus), wanted);
  EXPECT_EQ(learnt_of(corpus), learnt);
  EXPECT_EQ(wanted.front(), 612 - 2);
  EXPECT_THAT(document_ends(corpus), ElementsAre(corpus.size()));
}

TEST_F(TextCorpus, Llama3StripsContents) {
  const auto path = write("a.jsonl",
                          "{\"messages\": [{\"role\": \"user\", \"content\": \" Hi\\n\"},"
                          "{\"role\": \"assistant\", \"content\": \" Yo \"}]}");
  tokenizer_.first = 520;  // the template has its own
  const TokenCorpus corpus =
      open_corpus(jsonl(path, config::ChatTemplate::Kind::llama3), &tokenizer_);
  std::vector<TokenId> wanted = tokenizer_.ids(
      "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\nYo<|eot_id|>",
      true);
  EXPECT_EQ(all_of(corpus), wanted);
  EXPECT_EQ(learnt_text(corpus), "Yo");
  EXPECT_THAT(learnt_of(corpus).back(), 1);
}

TEST_F(TextCorpus, AlpacaHasInstructionsAndInputs) {
  tokenizer_.first = 520;
  tokenizer_.last = 521;
  const auto path = write("a.jsonl",
                          "{\"instruction\": \"Add\", \"input\": \"1 2\", \"output\": \"3\"}\n"
                          "{\"instruction\": \"Go\", \"input\": \"\", \"output\": \"Gone\"}\n"
                          "{\"prompt\": \"A\", \"completion\": \"B\"}\n");
  const TokenCorpus corpus =
      open_corpus(jsonl(path, config::ChatTemplate::Kind::alpaca), &tokenizer_);
  const std::vector<std::int32_t> ids = all_of(corpus);
  EXPECT_EQ(ids.front(), 520);
  const Range first = corpus.document(0);
  EXPECT_EQ(tokenizer_.decode({ids.data(), static_cast<std::size_t>(first.end)}, false),
            "### Instruction:\nAdd\n\n### Input:\n1 2\n\n### Response:\n3");
  EXPECT_EQ(corpus.documents(), 3);
  EXPECT_EQ(learnt_text(corpus), "3GoneB");
  const std::vector<std::uint8_t> learnt = learnt_of(corpus);
  std::int64_t ends = 0;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == 521) ends += learnt[i];
  EXPECT_EQ(ends, 3);
}

TEST_F(TextCorpus, CustomTemplatesSayWhatStandsAroundAMessage) {
  config::JsonlFiles source = jsonl(write("a.jsonl", kChat));
  source.chat.kind = config::ChatTemplate::Kind::custom;
  source.chat.roles = {{"system", "", "\n"}, {"user", "Q: ", "\n"}, {"assistant", "A:", ".\n"}};
  const TokenCorpus corpus = open_corpus(source, &tokenizer_);
  EXPECT_EQ(text_of(corpus), "Be good.\nQ: Hi\nA: Yo.\nQ: <x>\nA:Ok.\n");
  EXPECT_EQ(learnt_text(corpus), " Yo.\nOk.\n");
  source.chat.roles.erase(source.chat.roles.begin());
  EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(source, &tokenizer_); }),
              HasSubstr("a.jsonl:1: the chat template has no role \"system\"; it has user, "
                        "assistant"));
  source.chat.roles.pop_back();
  EXPECT_THAT(error_of(Exit::config, [&] { open_corpus(source, &tokenizer_); }),
              HasSubstr("the chat template has no role \"assistant\""));
}

TEST_F(TextCorpus, TemplatesAndKeysHaveTokensOfTheirOwnInTheCache) {
  const auto path = write("a.jsonl", kChat);
  age(path);
  const TokenCorpus plain = open_corpus(jsonl(path), &tokenizer_);
  const TokenCorpus chatml =
      open_corpus(jsonl(path, config::ChatTemplate::Kind::chatml), &tokenizer_);
  EXPECT_NE(all_of(plain), all_of(chatml));
  const TokenCorpus again = open_corpus(jsonl(path), &tokenizer_);
  EXPECT_EQ(all_of(again), all_of(plain));
  EXPECT_EQ(learnt_of(again), learnt_of(plain));
}

TEST_F(TextCorpus, FindsTheAlphabet) {
  EXPECT_EQ(alphabet_of("ba\xc3\xa4\xf0\x9f\x98\x80 a"), " ab\xc3\xa4\xf0\x9f\x98\x80");
  const auto path = write("a.jsonl", "{\"text\": \"\\u20ac?\"}\n{\"text\": \"z?\"}");
  EXPECT_EQ(alphabet_of(*make_jsonl_input(jsonl(path)), 2), "?z\xe2\x82\xac");
  for (const std::string bad : {"\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf4\x90\x80\x80"}) {
    const auto file = write("bad.txt", "ab" + bad);
    EXPECT_THAT(error_of(Exit::data, [&] { alphabet_of(*make_text_input(text(file)), 1); }),
                HasSubstr("bad.txt: the text is not UTF-8"));
  }
}

TEST_F(TextCorpus, TokenFilesAreCheckedAgainstTheTokenizer) {
  TokenArrays arrays(false);
  arrays.append(block_of({1, 2, 3}, {3}));
  write_token_shard(folder_ / "a.tokens", arrays, 5, 0);
  config::TokenFiles source;
  source.path = folder_ / "a.tokens";
  EXPECT_EQ(open_corpus(source, nullptr).size(), 3);
  EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(source, &tokenizer_); }),
              HasSubstr("its tokens were made by another tokenizer than fake"));
  tokenizer_.print = 5;
  EXPECT_EQ(open_corpus(source, &tokenizer_).size(), 3);
  tokenizer_.size = 2;
  EXPECT_THAT(error_of(Exit::data, [&] { open_corpus(source, &tokenizer_); }),
              HasSubstr("the token at offset 130 is 2, but the vocabulary has 2 ids"));
}

TEST(TinyShakespeare, IsInTheBinary) {
  config::TinyShakespeare source;
  const OpenedTokenizer opened = open_tokenizer(source);
  EXPECT_EQ(opened.alphabet.size(), std::size_t{65});
  EXPECT_EQ(opened.alphabet.substr(0, 3), "\n !");
  EXPECT_EQ(opened.tokenizer->vocabulary(), 65);
  source.part = config::Part::train;
  const TokenCorpus train = open_corpus(source, opened.tokenizer.get());
  source.part = config::Part::val;
  const TokenCorpus val = open_corpus(source, opened.tokenizer.get());
  EXPECT_EQ(train.size(), 1003854);  // nanoGPT's
  EXPECT_EQ(val.size(), 111540);
  std::vector<TokenId> ids(14);
  train.read(0, 14, ids.data());
  EXPECT_EQ(opened.tokenizer->decode(ids, false), "First Citizen:");
  // The alphabet of an earlier run stays.
  const OpenedTokenizer kept = open_tokenizer(source, opened.alphabet + "\xe2\x82\xac");
  EXPECT_EQ(kept.tokenizer->vocabulary(), 66);
}

}  // namespace
}  // namespace trainer::data

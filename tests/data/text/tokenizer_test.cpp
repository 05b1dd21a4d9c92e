#include "data/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "data/text/tokenizer_golden.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Record = std::function<void(const Tokenizer&, const std::string&, Crc32&)>;

// What tests/oracle/tokenizer_ids.py makes a digest of.
void record(const Tokenizer& tokenizer, const std::string& text, Crc32& crc) {
  std::vector<TokenId> ids = ids_of(tokenizer, text, false);
  ids.push_back(-1);
  const std::vector<TokenId> special = ids_of(tokenizer, text, true);
  ids.insert(ids.end(), special.begin(), special.end());
  ids.push_back(-1);
  crc.add(ids);
  crc.add(tokenizer.decode(special, true));
  crc.add(tokenizer.decode(special, false));
}

void record_plain(const Tokenizer& tokenizer, const std::string& text, Crc32& crc) {
  std::vector<TokenId> ids = ids_of(tokenizer, text, false);
  const std::string decoded = tokenizer.decode(ids, false);
  ids.push_back(-1);
  crc.add(ids);
  crc.add(decoded);
}

std::string escaped(const std::string& text) { return nlohmann::json(text).dump(-1, ' ', true); }

// `wanted`: a digest for each `together` strings, and one for each plane.
void expect_digests(const Tokenizer& tokenizer, std::span<const std::uint32_t> wanted,
                    std::uint64_t together, const Record& recorded, const std::string& name) {
  std::size_t at = 0;
  int wrong = 0;
  for (std::uint64_t start = 0; start < kStrings; start += together, ++at) {
    Crc32 crc;
    for (std::uint64_t i = start; i < start + together; ++i) recorded(tokenizer, generated(i), crc);
    if (crc.value() == wanted[at] || ++wrong > 5) continue;
    ADD_FAILURE() << name << ": strings from " << start << " " << escaped(generated(start)) << " "
                  << ::testing::PrintToString(ids_of(tokenizer, generated(start), true));
  }
  EXPECT_EQ(wrong, 0) << name << ", of " << kStrings / together;
  for (const auto& plane : tokenizer_golden().at("planes")) {
    Crc32 crc;
    const auto first = plane.get<std::uint32_t>() * 256;
    for (std::uint32_t block = first; block < first + 256; ++block)
      recorded(tokenizer, block_text(block), crc);
    EXPECT_EQ(crc.value(), wanted[at++]) << name << ", plane " << plane;
  }
  EXPECT_EQ(at, wanted.size()) << name;
}

void expect_base(const std::string& name, const fs::path& path, const Record& recorded = record) {
  const auto tokenizer = load_tokenizer(path.string());
  const auto& first = tokenizer_golden().at("first").at(name);
  for (std::size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(ids_of(*tokenizer, generated(i)), first[i].get<std::vector<TokenId>>())
        << name << " " << i << " " << escaped(generated(i));
  expect_digests(*tokenizer, read_digests(name), 1, recorded, name);
}

TEST(TokenizerGolden, Gpt2) { expect_base("gpt2", kTokenizers / "gpt2"); }
TEST(TokenizerGolden, Llama3) { expect_base("llama3", kTokenizers / "llama3.json"); }
TEST(TokenizerGolden, Llama2) { expect_base("llama2", kTokenizers / "llama2.json"); }
TEST(TokenizerGolden, Qwen2) { expect_base("qwen2", kTokenizers / "qwen2.json"); }

TEST(TokenizerGolden, SentencePieceModel) {
  try {
    load_tokenizer((kTokenizers / "pieces.model").string());
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("libsentencepiece-dev"));
    GTEST_SKIP() << error.what();
  }
  expect_base("pieces", kTokenizers / "pieces.model", record_plain);
}

class TokenizerFile : public FolderTest {
 protected:
  static nlohmann::json base(const std::string& name) {
    return nlohmann::json::parse(std::ifstream(kTokenizers / (name + ".json")));
  }
  std::unique_ptr<Tokenizer> load(const nlohmann::json& content) const {
    return load_tokenizer(write("tokenizer.json", content.dump()).string());
  }
  // Without the file's name, with which it must start.
  std::string error(const nlohmann::json& content) const {
    const fs::path path = write("tokenizer.json", content.dump());
    return error_behind(path.string() + ": ", [&] { load_tokenizer(path.string()); });
  }
  static std::string error_behind(const std::string& start, const std::function<void()>& act) {
    try {
      act();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Exit::data);
      const std::string message = error.what();
      EXPECT_EQ(message.substr(0, start.size()), start);
      return message.substr(std::min(start.size(), message.size()));
    }
    ADD_FAILURE() << "nothing thrown";
    return "";
  }
  static nlohmann::json patched(nlohmann::json content, const std::string& patch) {
    content.merge_patch(nlohmann::json::parse(patch));
    return content;
  }
};

TEST_F(TokenizerFile, VariantsOfEachPart) {
  const auto& variants = tokenizer_golden().at("variants");
  const std::vector<std::uint32_t> digests = read_digests("variants");
  const std::size_t each = kStrings / 100 + tokenizer_golden().at("planes").size();
  ASSERT_EQ(digests.size(), each * variants.size());
  std::size_t at = 0;
  for (const auto& [name, variant] : variants.items()) {
    nlohmann::json content = base(variant.at("base").get<std::string>());
    content.merge_patch(variant.at("patch"));
    expect_digests(*load(content), std::span(digests).subspan(at, each), 100, record, name);
    at += each;
  }
}

TEST_F(TokenizerFile, AnyBytesComeBack) {
  Congruential random(7);
  const std::vector<std::string> files{"gpt2", "llama3.json", "llama2.json"};
  for (const std::string& file : files) {
    const auto tokenizer = load_tokenizer((kTokenizers / file).string());
    for (int i = 0; i < 500; ++i) {
      // Some valid text, so that pieces stand beside what is not.
      std::string text = i % 3 == 0 ? "" : generated(static_cast<std::uint64_t>(i));
      for (std::uint64_t count = random.below(20); count > 0; --count)
        text.insert(text.begin() + static_cast<std::ptrdiff_t>(random.below(text.size() + 1)),
                    static_cast<char>(random.below(256)));
      // Llama 2 writes a space as U+2581, and so reads that back as a space.
      if (file == "llama2.json" && text.find("\u2581") != std::string::npos) continue;
      EXPECT_EQ(tokenizer->decode(ids_of(*tokenizer, text), true), text) << file << " " << i;
    }
  }
}

TEST_F(TokenizerFile, BytesThatAreNoUtf8AreTokensByThemselves) {
  const auto gpt2 = load_tokenizer((kTokenizers / "gpt2").string());
  const auto one = [&](const std::string& spelled) { return gpt2->find(spelled).value(); };
  // "the" of "the\xFFthe" as in a text by itself; a character cut short, byte by byte.
  const TokenId the = ids_of(*gpt2, "the").front();
  EXPECT_THAT(ids_of(*gpt2, "the\xFFthe"), ElementsAre(the, one("\u00ff"), the));
  EXPECT_THAT(ids_of(*gpt2, "\xE2\x82"), ElementsAre(one("\u00e2"), one("\u0124")));
  // Surrogates and overlong forms too.
  EXPECT_THAT(ids_of(*gpt2, "\xED\xA0\x80"),
              ElementsAre(one("\u00ed"), one("\u0142"), one("\u0122")));
  const auto llama2 = load_tokenizer((kTokenizers / "llama2.json").string());
  const std::vector<TokenId> alone = ids_of(*llama2, "x");
  std::vector<TokenId> wanted = alone;
  wanted.push_back(llama2->find("<0xC3>").value());
  wanted.push_back(llama2->find("x").value());
  EXPECT_EQ(ids_of(*llama2, "x\xC3x"), wanted);
}

TEST_F(TokenizerFile, AddedTokensAreDecodedAsText) {
  nlohmann::json content = base("qwen2");
  content["added_tokens"] = {{{"id", 1000}, {"content", "\u00e9\u00ea"}, {"special", false}},
                             {{"id", 1001}, {"content", " \u4e00"}, {"special", false}}};
  const auto tokenizer = load(content);
  EXPECT_THAT(ids_of(*tokenizer, "\u00e9\u00ea \u4e00e\u0301\u00ea"),
              ElementsAre(1000, 1001, 1000));
  EXPECT_EQ(tokenizer->decode(std::array<TokenId, 3>{1000, 1001, 1000}, true),
            "\u00e9\u00ea \u4e00\u00e9\u00ea");
}

TEST_F(TokenizerFile, ThreadsShareOne) {
  const auto tokenizer = load_tokenizer((kTokenizers / "llama3.json").string());
  const std::vector<std::uint32_t> wanted = read_digests("llama3");
  std::array<int, 4> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t; i < 2000; i += 2) {
        Crc32 crc;
        record(*tokenizer, generated(i), crc);
        if (crc.value() != wanted[i]) ++wrong[t];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

TEST_F(TokenizerFile, LongRunsOfOneCharacter) {
  // Merged by looking through all pairs each time, any of these would take many minutes.
  for (const char* file : {"gpt2", "llama3.json", "llama2.json", "qwen2.json"}) {
    const auto tokenizer = load_tokenizer((kTokenizers / file).string());
    for (const char* part : {"a", " ", "\n", "=", "ab", "\u00e9", "\u2581"}) {
      std::string text;
      while (text.size() < 300'000) text += part;
      const std::string back = tokenizer->decode(ids_of(*tokenizer, text), true);
      if (std::string_view(part) != "\u2581") {
        EXPECT_EQ(back, text) << file << " " << part;
      }
    }
  }
}

TEST_F(TokenizerFile, FewAndManyMergesAgree) {
  // 48 symbols are the most that are merged without a heap: a word and its longer neighbours.
  const auto tokenizer = load_tokenizer((kTokenizers / "qwen2.json").string());
  std::string word;
  while (word.size() < 48) word += "thenation";
  word.resize(48);
  const std::vector<TokenId> few = ids_of(*tokenizer, word);
  const std::vector<TokenId> many = ids_of(*tokenizer, word + "\x01");
  // A control character starts a piece of its own, so that the word is the same either way.
  EXPECT_EQ(std::vector<TokenId>(many.begin(), many.end() - 1), few);
}

TEST_F(TokenizerFile, DocumentTokens) {
  const auto plain = load(base("llama3"));
  EXPECT_EQ(plain->begin(), plain->find("<|begin_of_text|>"));
  EXPECT_EQ(plain->end(), plain->find("<|endoftext|>"));
  write("tokenizer_config.json", R"({"bos_token": null, "eos_token": {"content": "<|eot"}})");
  const auto configured = load(base("llama3"));
  EXPECT_EQ(configured->begin(), std::nullopt);
  EXPECT_EQ(configured->end(), configured->find("<|eot"));
  const fs::path config = write("tokenizer_config.json", R"({"eos_token": "</s>"})");
  EXPECT_EQ(error_behind(config.string() + ": ", [&] { load(base("llama3")); }),
            "eos_token: \"</s>\" is not in the vocabulary");
}

TEST_F(TokenizerFile, VocabularyAndFingerprint) {
  const auto tokenizer = load(base("llama3"));
  EXPECT_EQ(tokenizer->vocabulary(), 1104);
  EXPECT_EQ(tokenizer->find("<tool>"), 1103);
  EXPECT_EQ(tokenizer->find("<nothing>"), std::nullopt);
  EXPECT_THAT(tokenizer->describe(), HasSubstr("byte-level BPE of 1104 tokens, "));
  EXPECT_EQ(load(base("llama3"))->fingerprint(), tokenizer->fingerprint());
  EXPECT_NE(load(base("qwen2"))->fingerprint(), tokenizer->fingerprint());
  EXPECT_EQ(error_behind((folder_ / "tokenizer.json").string() + ": ",
                         [&] { tokenizer->decode(std::array{TokenId{1104}}, true); }),
            "there is no token 1104; the vocabulary has ids below 1104");
}

TEST_F(TokenizerFile, RefusesWhatItDoesNotKnow) {
  const nlohmann::json qwen2 = base("qwen2");
  const auto of = [&](const std::string& patch) { return error(patched(qwen2, patch)); };
  const std::string other =
      "\" is not supported; use another tokenizer, or tokenize the data outside";
  EXPECT_EQ(of(R"({"model": {"type": "Unigram"}})"), "model.type: \"Unigram" + other);
  EXPECT_EQ(of(R"({"normalizer": {"type": "Nmt"}})"), "normalizer.type: \"Nmt" + other);
  EXPECT_EQ(of(R"({"pre_tokenizer": {"pretokenizers": [{"type": "Punctuation"}]}})"),
            "pre_tokenizer.pretokenizers[0].type: \"Punctuation" + other);
  EXPECT_EQ(of(R"({"decoder": {"type": "CTC"}})"), "decoder.type: \"CTC" + other);
  EXPECT_EQ(of(R"({"model": {"dropout": 0.1}})"),
            "model.dropout: is not supported; set it to null");
  EXPECT_EQ(of(R"({"model": {"end_of_word_suffix": "</w>"}})"),
            "model.end_of_word_suffix: is not supported");
  EXPECT_EQ(of(R"({"model": {"byte_fallback": true}})"),
            "model.byte_fallback: is not supported with the pre-tokenizer ByteLevel");
  EXPECT_EQ(of(R"({"model": {"unk_token": "<none>"}})"),
            "model.unk_token: \"<none>\" is not in the vocabulary");
}

TEST_F(TokenizerFile, RefusesBrokenFiles) {
  const nlohmann::json qwen2 = base("qwen2");
  const auto of = [&](const std::string& patch) { return error(patched(qwen2, patch)); };
  EXPECT_EQ(of(R"({"model": null})"), "model: is missing");
  EXPECT_EQ(of(R"({"model": {"vocab": null}})"), "model.vocab: is missing");
  EXPECT_EQ(of(R"({"model": {"vocab": {"!": "x"}}})"),
            "model.vocab: the id of \"!\" must be a whole number from 0 to 1073741823");
  EXPECT_EQ(of(R"({"model": {"vocab": {"!": 1}}})"), "model.vocab: two tokens have the id 1");
  EXPECT_EQ(of(R"({"model": {"merges": ["a b", "a b c"]}})"),
            "model.merges[1]: must be two tokens with one space between them");
  EXPECT_EQ(of(R"({"model": {"merges": [["a", "\u4e00"]]}})"),
            "model.merges[0]: \"\u4e00\" is not in the vocabulary");
  EXPECT_EQ(of(R"({"added_tokens": [{"id": 7, "content": "<new>"}]})"),
            "added_tokens[0].id: is 7, but the tokenizers package gives \"<new>\" the id 1000");
  const fs::path broken = write("tokenizer.json", "{");
  EXPECT_THAT(error_behind(broken.string() + ": ", [&] { load_tokenizer(broken.string()); }),
              HasSubstr("no valid JSON: "));
  EXPECT_THAT(error_behind(folder_.string() + "/none: ",
                           [&] { load_tokenizer((folder_ / "none").string()); }),
              "there is no such tokenizer file or folder");
  fs::create_directory(folder_ / "empty");
  EXPECT_EQ(error_behind(folder_.string() + "/empty: ",
                         [&] { load_tokenizer((folder_ / "empty").string()); }),
            "has no tokenizer: neither tokenizer.json, nor vocab.json with merges.txt, nor "
            "tokenizer.model");
  write("model/tokenizer.model", "not a model");
  EXPECT_NE(error_behind((folder_ / "model/tokenizer.model").string() + ": ",
                         [&] { load_tokenizer((folder_ / "model").string()); }),
            "");
}

TEST_F(TokenizerFile, RefusesBrokenMerges) {
  fs::copy_file(kTokenizers / "gpt2/vocab.json", folder_ / "vocab.json");
  const fs::path merges = write("merges.txt", "#version: 0.2\nt h\nth\n");
  EXPECT_EQ(error_behind(merges.string() + ":3: ", [&] { load_tokenizer(folder_.string()); }),
            "must be two tokens with one space between them");
  write("merges.txt", "#version: 0.2\r\nt h\r\n\r\n");
  EXPECT_EQ(ids_of(*load_tokenizer(merges.string()), "th").size(), 1U);
}

TEST_F(TokenizerFile, RefusesPatternsThatTheTwoLibrariesReadDifferently) {
  const nlohmann::json qwen2 = base("qwen2");
  const auto of = [&](const std::string& pattern) {
    nlohmann::json content = qwen2;
    content["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
    const std::string field = "pre_tokenizer.pretokenizers[0].pattern: ";
    const std::string message = error(content);
    EXPECT_EQ(message.substr(0, field.size()), field);
    return message.substr(std::min(field.size(), message.size()));
  };
  EXPECT_EQ(of(R"(\w+)"), R"(\w (at byte 0 of the pattern) is not supported)");
  EXPECT_EQ(of("a$"), "$ (at byte 1 of the pattern) is not supported");
  EXPECT_EQ(of("[[:alpha:]]"), "[ inside [...] (at byte 1 of the pattern) is not supported");
  EXPECT_EQ(of("[a&&b]"), "&& inside [...] (at byte 2 of the pattern) is not supported");
  EXPECT_EQ(of("(?i:ss)"), "(?i:...) around ss (at byte 5 of the pattern) is not supported");
  EXPECT_EQ(of(R"((?i:\p{Lu}))"),
            "(?i:...) around more than letters (at byte 4 of the pattern) is not supported");
  EXPECT_EQ(of("(?<name>a)"), "the group (?<n (at byte 0 of the pattern) is not supported");
  EXPECT_EQ(of(R"(\p{Greek})"), R"(\p{Greek} (at byte 0 of the pattern) is not supported)");
  EXPECT_EQ(of("a{1,2}+"), "}+ (at byte 1 of the pattern) is not supported");
  EXPECT_EQ(of("a*"), "a pattern that may match no character is not supported");
  EXPECT_THAT(of("[\u4e00-\U00020000]"), HasSubstr("beyond Unicode 14, is not supported"));
  EXPECT_THAT(of("(a"), HasSubstr("missing closing parenthesis"));
}

TEST(ByteTokenizer, EveryByte) {
  const auto tokenizer = make_byte_tokenizer();
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const std::vector<TokenId> ids = ids_of(*tokenizer, all);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[static_cast<std::size_t>(byte)], byte);
  EXPECT_EQ(tokenizer->decode(ids, false), all);
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_EQ(tokenizer->find("A"), 65);
  EXPECT_THROW(tokenizer->decode(std::array{TokenId{256}}, false), Error);
}

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    return error.what();
  }
  return "";
}

TEST(CharacterTokenizer, InTheOrderOfCodePoints) {
  const auto tokenizer = make_character_tokenizer("b\u00e9a\U0001f600\n");
  EXPECT_EQ(tokenizer->vocabulary(), 5);
  EXPECT_THAT(ids_of(*tokenizer, "ab\n\U0001f600\u00e9"), ElementsAre(1, 2, 0, 4, 3));
  EXPECT_EQ(tokenizer->decode(std::array<TokenId, 3>{4, 0, 3}, false), "\U0001f600\n\u00e9");
  EXPECT_EQ(tokenizer->find("\u00e9"), 3);
  EXPECT_EQ(tokenizer->find("ab"), std::nullopt);
  EXPECT_EQ(make_character_tokenizer("\nab\u00e9\U0001f600")->fingerprint(),
            tokenizer->fingerprint());
  EXPECT_NE(make_character_tokenizer("ab")->fingerprint(), tokenizer->fingerprint());
}

TEST(CharacterTokenizer, NamesWhatItLacks) {
  const auto tokenizer = make_character_tokenizer("ab");
  EXPECT_EQ(message_of([&] { ids_of(*tokenizer, "ab\u4e00"); }),
            "the character U+4E00 at byte 2 of a text is not in the alphabet of the tokenizer of "
            "characters; make it from all of the texts, or use bytes");
  EXPECT_EQ(
      message_of([&] { ids_of(*tokenizer, "a\xFF"); }),
      "the text is no UTF-8 at byte 1; the tokenizer of characters needs it (use bytes instead)");
  EXPECT_EQ(message_of([] { make_character_tokenizer(""); }),
            "the alphabet is empty; give it some characters");
  EXPECT_EQ(message_of([] { make_character_tokenizer("aba"); }), "the alphabet has U+0061 twice");
}

}  // namespace
}  // namespace trainer::data

#include "data/text/windows.h"

#include <gmock/gmock.h>

#include <map>

#include "text_test.h"

namespace trainer::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Sample {
  std::vector<std::int32_t> input, target, documents, positions;
  std::int64_t counted = 0;
};

Sample sample_of(const Windows& windows, std::int64_t index) {
  const auto length = static_cast<std::size_t>(windows.length());
  Sample sample;
  for (auto* part : {&sample.input, &sample.target}) part->assign(length, -7);
  if (windows.packed())
    for (auto* part : {&sample.documents, &sample.positions}) part->assign(length, -7);
  sample.counted = windows.fill(index, {sample.input.data(), sample.target.data(),
                                        sample.documents.data(), sample.positions.data()});
  return sample;
}

config::TokenSource source_of(std::int64_t length, config::Packing packing) {
  config::TokenSource source;
  source.length = length;
  source.packing = packing;
  return source;
}

const auto kSequential = config::Packing::sequential;
const auto kDocuments = config::Packing::documents;
const auto kNone = config::Packing::none;

TEST(Windows, SequentialOnesFollowEachOther) {
  const Windows windows(counting_corpus({5, 4}), source_of(3, kSequential));
  ASSERT_EQ(windows.size(), 3);
  EXPECT_FALSE(windows.packed());
  EXPECT_THAT(sample_of(windows, 0).input, ElementsAre(1, 2, 3));
  EXPECT_THAT(sample_of(windows, 0).target, ElementsAre(2, 3, 4));
  EXPECT_THAT(sample_of(windows, 1).input, ElementsAre(4, 5, 6));
  EXPECT_THAT(sample_of(windows, 2).input, ElementsAre(7, 8, 0));
  EXPECT_THAT(sample_of(windows, 2).target, ElementsAre(8, 9, -100));
  EXPECT_EQ(sample_of(windows, 2).counted, 2);
  EXPECT_EQ(windows.describe(), "3 samples of 3 tokens, 11.1% padding");
}

TEST(Windows, SequentialOnesHaveEachTokenOnceAsATarget) {
  for (std::int64_t size = 2; size < 40; ++size) {
    for (const std::int64_t length : {1, 2, 7, 38, 39, 50}) {
      const Windows windows(counting_corpus({size}), source_of(length, kSequential));
      std::vector<std::int32_t> targets;
      std::int64_t counted = 0;
      for (std::int64_t i = 0; i < windows.size(); ++i) {
        const Sample sample = sample_of(windows, i);
        counted += sample.counted;
        for (std::size_t at = 0; at < sample.target.size(); ++at) {
          if (sample.target[at] == kIgnoredTarget) continue;
          EXPECT_EQ(sample.target[at], sample.input[at] + 1);
          targets.push_back(sample.target[at]);
        }
      }
      ASSERT_EQ(targets.size(), static_cast<std::size_t>(size - 1)) << size << " " << length;
      EXPECT_EQ(counted, size - 1);
      EXPECT_EQ(windows.places(), size - 1);
      for (std::size_t i = 0; i < targets.size(); ++i)
        EXPECT_EQ(targets[i], static_cast<std::int32_t>(i + 2));
    }
  }
}

TEST(Windows, LeavesTheLastPartialOneOutOnRequest) {
  config::TokenSource source = source_of(3, kSequential);
  source.drop_partial = true;
  EXPECT_EQ(Windows(counting_corpus({9}), source).size(), 2);
  EXPECT_EQ(Windows(counting_corpus({10}), source).size(), 3);
  EXPECT_THAT(error_of(Exit::config, [&] { Windows(counting_corpus({3}), source); }),
              HasSubstr("no window of length 3 is full"));
}

TEST(Windows, RefusesWhatHasNothingToLearn) {
  for (const auto packing : {kSequential, kDocuments, kNone}) {
    EXPECT_THAT(error_of(Exit::data, [&] { Windows(counting_corpus({1}), source_of(4, packing)); }),
                HasSubstr("there is no token that follows another"));
  }
}

TEST(Windows, MaskedTokensAreNoTargets) {
  const TokenCorpus corpus = corpus_of(block_of({1, 2, 3, 4, 5, 6}, {3, 6}, {0, 0, 1, 0, 1, 1}));
  const Windows sequential(corpus, source_of(5, kSequential));
  EXPECT_THAT(sample_of(sequential, 0).target, ElementsAre(-100, 3, -100, 5, 6));
  EXPECT_EQ(sample_of(sequential, 0).counted, 3);
  const Windows packed(corpus, source_of(5, kDocuments));
  ASSERT_EQ(packed.size(), 1);
  EXPECT_THAT(sample_of(packed, 0).target, ElementsAre(-100, 3, 5, 6, -100));
  EXPECT_EQ(sample_of(packed, 0).counted, 3);
}

TEST(Windows, PacksWholeDocumentsSideBySide) {
  const Windows windows(counting_corpus({4, 6, 2, 1, 3}), source_of(6, kDocuments));
  // Places 3, 5, 1, none, 2: the 1 goes where it fits best.
  ASSERT_EQ(windows.size(), 2);
  EXPECT_TRUE(windows.packed());
  const Sample first = sample_of(windows, 0);
  EXPECT_THAT(first.input, ElementsAre(1, 2, 3, 14, 15, 0));
  EXPECT_THAT(first.target, ElementsAre(2, 3, 4, 15, 16, -100));
  EXPECT_THAT(first.documents, ElementsAre(0, 0, 0, 1, 1, 2));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 0, 1, 0));
  EXPECT_EQ(first.counted, 5);
  const Sample second = sample_of(windows, 1);
  EXPECT_THAT(second.input, ElementsAre(5, 6, 7, 8, 9, 11));
  EXPECT_THAT(second.target, ElementsAre(6, 7, 8, 9, 10, 12));
  EXPECT_THAT(second.documents, ElementsAre(0, 0, 0, 0, 0, 1));
}

TEST(Windows, PackingKeepsEachTokenOnceAndDocumentsApart) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 3000; ++i) sizes.push_back(1 + i * i * 7919 % 83);
  const TokenCorpus corpus = counting_corpus(sizes);
  const Windows windows(corpus, source_of(32, kDocuments));
  std::vector<std::int64_t> document_of;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    document_of.insert(document_of.end(), static_cast<std::size_t>(sizes[i]),
                       static_cast<std::int64_t>(i));
  std::map<std::int32_t, int> seen;
  for (std::int64_t i = 0; i < windows.size(); ++i) {
    const Sample sample = sample_of(windows, i);
    std::map<std::int32_t, std::int64_t> documents;  // of the row's pieces
    for (std::size_t at = 0; at < 32; ++at) {
      if (at > 0) {
        EXPECT_GE(sample.documents[at], sample.documents[at - 1]);
        const bool same = sample.documents[at] == sample.documents[at - 1];
        EXPECT_EQ(sample.positions[at], same ? sample.positions[at - 1] + 1 : 0);
      }
      if (sample.target[at] == kIgnoredTarget) continue;
      EXPECT_EQ(sample.target[at], sample.input[at] + 1);
      const std::int64_t document = document_of[static_cast<std::size_t>(sample.input[at] - 1)];
      EXPECT_EQ(document, document_of[static_cast<std::size_t>(sample.target[at] - 1)]);
      EXPECT_EQ(documents.try_emplace(sample.documents[at], document).first->second, document);
      ++seen[sample.target[at]];
    }
  }
  std::int64_t targets = 0;
  for (const std::int64_t size : sizes) targets += size - 1;
  EXPECT_EQ(static_cast<std::int64_t>(seen.size()), targets);
  for (const auto& [token, times] : seen) EXPECT_EQ(times, 1) << token;
  EXPECT_EQ(windows.places(), targets);
  // Rows are well filled.
  EXPECT_LT(windows.size() * 32, targets * 101 / 100 + 32);
}

TEST(Windows, LongDocumentsAreCutIntoPieces) {
  const Windows windows(counting_corpus({8}), source_of(3, kDocuments));
  ASSERT_EQ(windows.size(), 3);
  EXPECT_THAT(sample_of(windows, 1).input, ElementsAre(4, 5, 6));
  EXPECT_THAT(sample_of(windows, 1).positions, ElementsAre(0, 1, 2));
  EXPECT_THAT(sample_of(windows, 2).target, ElementsAre(8, -100, -100));
  EXPECT_EQ(windows.cut_documents(), 1);
  EXPECT_THAT(windows.describe(), HasSubstr("1 longer documents cut into pieces"));
}

TEST(Windows, OneDocumentASample) {
  const Windows windows(counting_corpus({3, 1, 9}), source_of(4, kNone));
  ASSERT_EQ(windows.size(), 2);
  EXPECT_FALSE(windows.packed());
  EXPECT_THAT(sample_of(windows, 0).input, ElementsAre(1, 2, 0, 0));
  EXPECT_THAT(sample_of(windows, 0).target, ElementsAre(2, 3, -100, -100));
  EXPECT_THAT(sample_of(windows, 1).target, ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(windows.cut_documents(), 1);
  EXPECT_THAT(windows.describe(), HasSubstr("1 longer documents cut off"));
}

TEST(Windows, NeedsToKnowTheDocuments) {
  TokenSegment segment = segment_of(std::make_shared<TokenArrays>(false), "raw.bin", 0);
  static const std::vector<std::uint16_t> kTokens{1, 2, 3};
  segment.tokens = reinterpret_cast<const std::uint8_t*>(kTokens.data());
  segment.size = 3;
  segment.has_documents = false;
  const TokenCorpus corpus({segment}, "raw");
  EXPECT_EQ(Windows(corpus, source_of(2, kSequential)).size(), 1);
  EXPECT_THAT(error_of(Exit::config, [&] { Windows(corpus, source_of(2, kDocuments)); }),
              HasSubstr("raw token files do not say where documents end"));
}

TEST(Windows, FingerprintFollowsCorpusAndCut) {
  const TokenCorpus corpus = counting_corpus({30});
  const std::uint64_t print = Windows(corpus, source_of(4, kSequential)).fingerprint();
  EXPECT_EQ(Windows(counting_corpus({30}), source_of(4, kSequential)).fingerprint(), print);
  EXPECT_NE(Windows(corpus, source_of(5, kSequential)).fingerprint(), print);
  EXPECT_NE(Windows(corpus, source_of(4, kDocuments)).fingerprint(), print);
  EXPECT_NE(Windows(counting_corpus({31}), source_of(4, kSequential)).fingerprint(), print);
}

}  // namespace
}  // namespace trainer::data

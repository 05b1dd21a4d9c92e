#include "data/text/corpus.h"

#include <gmock/gmock.h>

#include "text_test.h"

namespace trainer::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TokenArrays, BeginsTheMaskWithTheFirstTokenThatIsNotLearnt) {
  TokenArrays arrays(false);
  arrays.append(block_of({1, 2, 3}, {3}));
  EXPECT_THAT(arrays.mask(), IsEmpty());
  arrays.append(block_of({4, 5}, {2}, {1, 1}));
  EXPECT_THAT(arrays.mask(), IsEmpty());
  arrays.append(block_of({6, 7, 8, 9}, {4}, {0, 1, 0, 1}));
  arrays.append(block_of({10}, {1}));
  EXPECT_THAT(arrays.mask(), ElementsAre(0b01011111, 0b11));
  EXPECT_THAT(arrays.ends(), ElementsAre(3, 5, 9, 10));
  EXPECT_EQ(arrays.largest(), 10);
}

TEST(TokenCorpus, ReadsAcrossSegments) {
  std::vector<TokenSegment> segments;
  for (int i = 0; i < 3; ++i) {
    auto arrays = std::make_shared<TokenArrays>(i == 1);
    arrays->append(block_of({10 * i, 10 * i + 1, 10 * i + 2}, {3}));
    segments.push_back(segment_of(arrays, "part", 4));
  }
  const TokenCorpus corpus(segments, "parts");
  std::vector<std::int64_t> tokens(6);
  corpus.read(2, 6, tokens.data());
  EXPECT_THAT(tokens, ElementsAre(2, 10, 11, 12, 20, 21));
  EXPECT_EQ(corpus.describe(), "parts: 9 tokens, 3 documents, 3 files, ids up to 22");
}

TEST(TokenCorpus, FingerprintFollowsTokensDocumentsMaskAndPart) {
  const TokenCorpus corpus = corpus_of(block_of({1, 2, 3, 4}, {2, 4}));
  EXPECT_EQ(corpus.fingerprint(), corpus_of(block_of({1, 2, 3, 4}, {2, 4})).fingerprint());
  EXPECT_NE(corpus.fingerprint(), corpus_of(block_of({1, 2, 3, 5}, {2, 4})).fingerprint());
  EXPECT_NE(corpus.fingerprint(), corpus_of(block_of({1, 2, 3, 4}, {1, 4})).fingerprint());
  EXPECT_NE(corpus.fingerprint(),
            corpus_of(block_of({1, 2, 3, 4}, {2, 4}, {1, 1, 0, 1})).fingerprint());
  EXPECT_NE(corpus.fingerprint(), corpus.part({0, 3}).fingerprint());
}

TEST(TokenCorpus, PartsCutDocumentsOff) {
  const TokenCorpus corpus = counting_corpus({3, 2, 4});
  const TokenCorpus part = corpus.part({1, 7});
  EXPECT_THAT(all_of(part), ElementsAre(2, 3, 4, 5, 6, 7));
  EXPECT_THAT(document_ends(part), ElementsAre(2, 4, 6));
  const TokenCorpus inner = part.part({2, 4});
  EXPECT_THAT(all_of(inner), ElementsAre(4, 5));
  EXPECT_THAT(document_ends(inner), ElementsAre(2));
}

TEST(TokenCorpus, SplitsOffItsTail) {
  const TokenCorpus corpus = counting_corpus({3, 2, 4, 1});
  config::TokenSource source;
  source.val_share = 0.3;
  source.part = config::Part::train;
  EXPECT_THAT(all_of(part_of(corpus, source)), ElementsAre(1, 2, 3, 4, 5, 6, 7));
  source.part = config::Part::val;
  EXPECT_THAT(all_of(part_of(corpus, source)), ElementsAre(8, 9, 10));
  source.part = config::Part::all;
  EXPECT_EQ(part_of(corpus, source).size(), 10);
}

TEST(TokenCorpus, SplitsBetweenDocumentsWhereTheyStayWhole) {
  const TokenCorpus corpus = counting_corpus({3, 2, 4, 1});
  config::TokenSource source;
  source.packing = config::Packing::documents;
  source.part = config::Part::val;
  // The cut at token 5 is where a document begins, the one at 6 is not.
  source.val_share = 0.5;
  EXPECT_THAT(all_of(part_of(corpus, source)), ElementsAre(6, 7, 8, 9, 10));
  source.val_share = 0.4;
  EXPECT_THAT(all_of(part_of(corpus, source)), ElementsAre(10));
  source.val_share = 0.01;  // within the last document
  EXPECT_THAT(all_of(part_of(corpus, source)), ElementsAre(10));
  source.part = config::Part::train;
  EXPECT_EQ(part_of(corpus, source).size(), 9);
}

TEST(TokenCorpus, RefusesASplitThatLeavesNothing) {
  config::TokenSource source;
  source.part = config::Part::val;
  source.packing = config::Packing::documents;
  EXPECT_THAT(
      error_of(Exit::data, [&] { part_of(counting_corpus({9}), source); }),
      HasSubstr("cannot be split, since one part would be empty (0 tokens to train on, 9 for"));
}

}  // namespace
}  // namespace trainer::data

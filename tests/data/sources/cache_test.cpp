#include "data/sources/cache.h"

#include <thread>

#include "core/ram.h"
#include "data/sources/source_test.h"

namespace trainer::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr std::int64_t kLarge = std::int64_t{1} << 30;
// What a stored sample takes beside its bytes, which are rounded up to 16.
constexpr std::int64_t kHead = 24;

std::int64_t taken(std::size_t bytes) {
  return (static_cast<std::int64_t>(bytes) + kHead + 15) / 16 * 16;
}

std::vector<MemorySource::Sample> samples(std::int64_t count) {
  std::vector<MemorySource::Sample> all;
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back({std::string(static_cast<std::size_t>(i * 37 % 500), static_cast<char>(i)), i % 3,
                   static_cast<float>(i)});
  }
  return all;
}

struct Made {
  std::unique_ptr<CachedSource> cache;
  const MemorySource* source;
};
Made make(std::vector<MemorySource::Sample> from, std::int64_t limit, DecodeWhole decode = {}) {
  auto source = std::make_unique<MemorySource>(std::move(from), std::vector<std::string>{});
  const MemorySource* seen = source.get();
  return {std::make_unique<CachedSource>(std::move(source), limit, std::move(decode)), seen};
}

std::vector<int> fetches(const Made& made) {
  return {made.source->fetches.begin(), made.source->fetches.end()};
}

TEST(RamCache, GivesTheSameSamplesAndReadsEachOnce) {
  const Made made = make(samples(300), kLarge);
  const MemorySource plain(samples(300), {});
  for (int epoch = 0; epoch < 3; ++epoch) expect_same_samples(*made.cache, plain);
  EXPECT_THAT(fetches(made), Each(1));
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < 300; ++i) bytes += taken(fetched(plain, i).size());
  EXPECT_EQ(made.cache->held().samples, 300);
  EXPECT_EQ(made.cache->held().bytes, bytes);
  EXPECT_EQ(made.cache->held().limit, kLarge);
}

TEST(RamCache, PassesOnAllElse) {
  const Made made = make(samples(5), kLarge);
  EXPECT_EQ(made.cache->describe(), "memory");
  EXPECT_EQ(made.cache->fingerprint(), 17U);
  EXPECT_EQ(made.cache->sample_name(2), "sample 2 of memory");
  EXPECT_EQ(made.cache->channels(), 3);
  EXPECT_TRUE(made.cache->encoded());
}

TEST(RamCache, KeepsToItsLimit) {
  // Room for the first and the third.
  const Made made = make({{std::string(100, 'a')}, {std::string(200, 'b')}, {std::string(40, 'c')}},
                         taken(100) + taken(40));
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(fetched(*made.cache, 0), std::string(100, 'a'));
    EXPECT_EQ(fetched(*made.cache, 1), std::string(200, 'b'));
    EXPECT_EQ(fetched(*made.cache, 2), std::string(40, 'c'));
  }
  EXPECT_THAT(fetches(made), ElementsAre(1, 3, 1));
  EXPECT_EQ(made.cache->held().samples, 2);
  EXPECT_EQ(made.cache->held().bytes, taken(100) + taken(40));
}

TEST(RamCache, WithoutRoomItOnlyPassesOn) {
  for (const std::int64_t limit : {std::int64_t{0}, taken(100) - 1}) {
    const Made made = make({{std::string(100, 'a')}}, limit);
    EXPECT_EQ(fetched(*made.cache, 0), std::string(100, 'a'));
    EXPECT_EQ(fetched(*made.cache, 0), std::string(100, 'a'));
    EXPECT_THAT(fetches(made), ElementsAre(2));
    EXPECT_EQ(made.cache->held().samples, 0);
    EXPECT_EQ(made.cache->held().bytes, 0);
  }
}

TEST(RamCache, HoldsLargeAndManySamples) {
  std::vector<MemorySource::Sample> from;
  from.reserve(30);
  for (int i = 0; i < 30; ++i)
    from.push_back({std::string(std::size_t{1} << (i % 6 + 18), static_cast<char>('a' + i))});
  const Made made = make(from, kLarge);
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t i = 0; i < 30; ++i)
      EXPECT_TRUE(fetched(*made.cache, i) == from[static_cast<std::size_t>(i)].bytes) << i;
  }
  EXPECT_THAT(fetches(made), Each(1));
}

TEST(RamCache, StoredBytesDoNotDependOnTheBuffer) {
  const Made made = make({{"one"}, {"two"}}, kLarge);
  std::vector<std::uint8_t> buffer;
  const Raw first = made.cache->fetch(0, buffer);
  const Raw second = made.cache->fetch(1, buffer);
  EXPECT_EQ(as_text(first.bytes), "one");
  EXPECT_EQ(as_text(second.bytes), "two");
}

TEST(RamCache, AnErrorIsGivenEachTime) {
  const Made made = make({{"broken"}}, kLarge);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of(Exit::data, [&] { fetched(*made.cache, 0); }), "sample 0 of memory: broken");
  }
  EXPECT_THAT(fetches(made), ElementsAre(2));
}

TEST(RamCache, HoldsPixelsOfSources) {
  const Made made = make({{"abcdef", 0, 1, 2, 1, 3}}, kLarge);
  std::vector<std::uint8_t> buffer;
  for (int i = 0; i < 2; ++i) {
    const Raw raw = made.cache->fetch(0, buffer);
    EXPECT_EQ(as_text(raw.bytes), "abcdef");
    EXPECT_EQ(raw.height, 2);
    EXPECT_EQ(raw.width, 1);
    EXPECT_EQ(raw.channels, 3);
  }
  EXPECT_THAT(fetches(made), ElementsAre(1));
}

// "decodes" to three pixels for each byte; declines what starts with '-'.
bool decode_bytes(Bytes encoded, Image& pixels) {
  if (as_text(encoded).starts_with('-')) return false;
  if (as_text(encoded).starts_with('!')) throw Error(Exit::data, "no image");
  pixels.height = 1;
  pixels.width = static_cast<int>(encoded.size());
  pixels.channels = 3;
  pixels.pixels.clear();
  for (const std::uint8_t byte : encoded) pixels.pixels.insert(pixels.pixels.end(), 3, byte);
  return true;
}

TEST(RamCache, HoldsWhatTheDecoderMade) {
  for (const std::int64_t limit : {kLarge, std::int64_t{0}}) {
    const Made made = make({{"ab"}, {"-cd"}, {"!"}}, limit, decode_bytes);
    std::vector<std::uint8_t> buffer;
    for (int i = 0; i < 2; ++i) {
      const Raw decoded = made.cache->fetch(0, buffer);
      EXPECT_EQ(as_text(decoded.bytes), "aaabbb");
      EXPECT_EQ(decoded.width, 2);
      EXPECT_FALSE(decoded.encoded());
      const Raw declined = made.cache->fetch(1, buffer);
      EXPECT_EQ(as_text(declined.bytes), "-cd");
      EXPECT_TRUE(declined.encoded());
      EXPECT_EQ(error_of(Exit::data, [&] { fetched(*made.cache, 2); }), "no image");
    }
    EXPECT_THAT(fetches(made), limit > 0 ? ElementsAre(1, 1, 2) : ElementsAre(2, 2, 2));
  }
}

TEST(RamCache, ManyThreadsGetTheSameSamples) {
  for (const std::int64_t limit : {kLarge, std::int64_t{20'000}}) {
    const auto wanted = samples(400);
    const Made made = make(wanted, limit);
    std::atomic<int> wrong = 0;
    {
      std::vector<std::jthread> threads;
      for (std::int64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
          std::vector<std::uint8_t> buffer;
          for (std::int64_t i = 0; i < 4 * 400; ++i) {
            const std::int64_t index = (i * 7 + thread) % 400;
            const Raw raw = made.cache->fetch(index, buffer);
            if (as_text(raw.bytes) != wanted[static_cast<std::size_t>(index)].bytes) ++wrong;
          }
        });
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_LE(made.cache->held().bytes, limit);
    EXPECT_GT(made.cache->held().samples, 0);
    if (limit == kLarge) {
      EXPECT_EQ(made.cache->held().samples, 400);
    }
  }
}

TEST(RamCache, FollowsTheConfiguration) {
  const auto source = [] {
    return std::make_unique<MemorySource>(samples(3), std::vector<std::string>{});
  };
  config::RamCache config;
  config.size = 1000;
  EXPECT_EQ(cached(source(), config)->held().limit, 1000);
  std::vector<std::uint8_t> buffer;
  EXPECT_TRUE(cached(source(), config, 1, decode_bytes)->fetch(1, buffer).encoded());
  config.holds = config::CacheHolds::decoded;
  EXPECT_FALSE(cached(source(), config, 1, decode_bytes)->fetch(1, buffer).encoded());
  config.size.reset();
  const std::int64_t limit = cached(source(), config, 4)->held().limit;
  EXPECT_GT(limit, 0);
  EXPECT_LT(limit, ram_limit());
}

}  // namespace
}  // namespace trainer::data

#include "data/text/token_loader.h"

#include <gmock/gmock.h>

#include "text_test.h"

namespace trainer::data {
namespace {

struct Step {
  std::int64_t step, size, targets;
  std::vector<std::int32_t> input, target, documents, positions;
  bool operator==(const Step&) const = default;
};

std::vector<std::int32_t> copied(std::span<const std::int32_t> from) {
  return {from.begin(), from.end()};
}

Step step_of(const HostTokens& batch) {
  return {batch.step,
          batch.size,
          batch.targets,
          copied(batch.input),
          copied(batch.target),
          copied(batch.documents),
          copied(batch.positions)};
}

const Windows& windows(config::Packing packing) {
  static const auto make = [](config::Packing kind) {
    config::TokenSource source;
    source.length = 5;
    source.packing = kind;
    std::vector<std::int64_t> sizes;
    for (std::int64_t i = 0; i < 40; ++i) sizes.push_back(2 + i % 9);
    return Windows(counting_corpus(sizes), source);
  };
  static const Windows sequential = make(config::Packing::sequential);
  static const Windows packed = make(config::Packing::documents);
  return packing == config::Packing::documents ? packed : sequential;
}

std::vector<Step> steps_of(TokenLoader& loader) {
  std::vector<Step> steps;
  while (const HostTokens* batch = loader.next()) {
    steps.push_back(step_of(*batch));
    loader.release();
  }
  return steps;
}

TokenLoaderOptions options(int workers, int prefetch, std::int64_t first = 0) {
  TokenLoaderOptions options;
  options.workers = workers;
  options.prefetch = prefetch;
  options.first_step = first;
  options.last_step = 25;
  return options;
}

Sampler sampler(const Windows& of, int rank = 0, int ranks = 1) {
  return Sampler(of.size(), 6, false, true, 3, rank, ranks);
}

TEST(TokenLoader, FillsTheSamplersWindows) {
  const Windows& all = windows(config::Packing::sequential);
  TokenLoader loader(all, sampler(all), options(0, 2));
  const Sampler order = sampler(all);
  std::vector<std::int32_t> input(5);
  std::vector<std::int32_t> target(5);
  for (std::int64_t step = 0; step < 25; ++step) {
    const HostTokens* batch = loader.next();
    ASSERT_NE(batch, nullptr);
    std::int64_t targets = 0;
    for (std::int64_t i = 0; i < batch->size; ++i) {
      const std::int64_t sample = order.sample(batch->place.epoch, batch->place.share.begin + i);
      targets += all.fill(sample, {input.data(), target.data(), nullptr, nullptr});
      const auto at = static_cast<std::size_t>(5 * i);
      EXPECT_EQ(copied(batch->input.subspan(at, 5)), input);
      EXPECT_EQ(copied(batch->target.subspan(at, 5)), target);
    }
    EXPECT_EQ(batch->targets, targets);
    loader.release();
  }
  EXPECT_EQ(loader.next(), nullptr);
}

TEST(TokenLoader, DoesNotDependOnWorkersAndPrefetch) {
  for (const auto packing : {config::Packing::sequential, config::Packing::documents}) {
    const Windows& all = windows(packing);
    TokenLoader reference(all, sampler(all), options(0, 1));
    const std::vector<Step> wanted = steps_of(reference);
    ASSERT_EQ(wanted.size(), std::size_t{25});
    for (const int workers : {1, 2, 5}) {
      for (const int prefetch : {1, 4}) {
        TokenLoader loader(all, sampler(all), options(workers, prefetch));
        EXPECT_EQ(steps_of(loader), wanted) << workers << " " << prefetch;
      }
    }
  }
}

TEST(TokenLoader, GoesOnFromAnyStep) {
  const Windows& all = windows(config::Packing::documents);
  TokenLoader reference(all, sampler(all), options(0, 1));
  const std::vector<Step> wanted = steps_of(reference);
  TokenLoader later(all, sampler(all), options(2, 3, 11));
  EXPECT_EQ(step_of(*later.next()), wanted[11]);
  later.next();
  later.seek(4);
  for (std::size_t step = 4; step < 25; ++step) {
    EXPECT_EQ(step_of(*later.next()), wanted[step]);
    later.release();
  }
}

TEST(TokenLoader, SharesOfRanksAreTheWholeBatch) {
  const Windows& all = windows(config::Packing::sequential);
  TokenLoader whole(all, sampler(all), options(0, 1));
  TokenLoader first(all, sampler(all, 0, 2), options(1, 1));
  TokenLoader second(all, sampler(all, 1, 2), options(1, 1));
  for (int step = 0; step < 25; ++step) {
    const Step wanted = step_of(*whole.next());
    Step joined = step_of(*first.next());
    const Step rest = step_of(*second.next());
    joined.input.insert(joined.input.end(), rest.input.begin(), rest.input.end());
    EXPECT_EQ(joined.input, wanted.input);
    EXPECT_EQ(joined.targets + rest.targets, wanted.targets);
    for (TokenLoader* loader : {&whole, &first, &second}) loader->release();
  }
}

TEST(TokenLoader, NextIfReadyNeverFills) {
  const Windows& all = windows(config::Packing::sequential);
  TokenLoader loader(all, sampler(all), options(0, 1));
  EXPECT_EQ(loader.next_if_ready(), nullptr);
  EXPECT_EQ(loader.next()->step, 0);
  EXPECT_EQ(loader.next_if_ready(), nullptr);
}

TEST(TokenLoader, RefusesToHoldMoreThanItHas) {
  const Windows& all = windows(config::Packing::sequential);
  TokenLoader loader(all, sampler(all), options(1, 1));
  EXPECT_THROW(loader.release(), std::logic_error);
  loader.next();
  loader.next();
  EXPECT_THROW(loader.next(), std::logic_error);
  EXPECT_EQ(loader.next_if_ready(), nullptr);
  EXPECT_GT(loader.take_times().stages.read_bytes, 0);
}

}  // namespace
}  // namespace trainer::data

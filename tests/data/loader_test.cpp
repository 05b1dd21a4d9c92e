#include "data/loader.h"

#include <gmock/gmock.h>

#include <atomic>

#include "support.h"

namespace trainer::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A step as values.
struct Seen {
  std::int64_t step = 0;
  std::int64_t begin = 0;
  std::vector<std::uint8_t> images;
  std::vector<std::int64_t> labels;
  std::vector<std::int32_t> erase;
  bool operator==(const Seen&) const = default;
};

Seen seen(const HostBatch& batch) {
  return {batch.step,
          batch.place.share.begin,
          {batch.images.begin(), batch.images.end()},
          {batch.labels.begin(), batch.labels.end()},
          {batch.erase.begin(), batch.erase.end()}};
}

std::vector<Seen> drain(Loader& loader) {
  std::vector<Seen> all;
  while (const HostBatch* batch = loader.next()) {
    all.push_back(seen(*batch));
    loader.release();
  }
  return all;
}

const std::vector<config::Transform> kAugmentation{
    config::RandomResizedCrop{.size = 6}, config::HorizontalFlip{},
    config::ColorJitter{0.4, 0.4, 0.4, 0.1}, config::Normalize{{0.5}, {0.5}},
    config::RandomErasing{}};

LoaderOptions options(int workers, int prefetch, std::int64_t last_step = 12) {
  LoaderOptions options;
  options.workers = workers;
  options.prefetch = prefetch;
  options.seed = 11;
  options.last_step = last_step;
  return options;
}

TEST(Loader, DeliversTheSamplesOfEachStep) {
  const CountingSource source(25, 4, 3);
  const Pipeline pipeline({}, 3);
  const Sampler sampler(25, 10, false, true, 5);
  Loader loader(source, pipeline, sampler, options(2, 2, 3));
  EXPECT_EQ(loader.height(), 4);
  EXPECT_EQ(loader.width(), 3);
  EXPECT_EQ(loader.channels(), 3);
  const auto steps = drain(loader);
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[2].labels.size(), 5U);  // the tail
  Image image;
  for (const Seen& step : steps) {
    for (std::size_t i = 0; i < step.labels.size(); ++i) {
      const std::int64_t index = sampler.sample(0, step.begin + static_cast<std::int64_t>(i));
      EXPECT_EQ(step.labels[i], index % 10);
      source.read(index, image);
      EXPECT_TRUE(std::equal(image.pixels.begin(), image.pixels.end(),
                             step.images.begin() + static_cast<std::ptrdiff_t>(36 * i)));
    }
    EXPECT_TRUE(step.erase.empty());
  }
}

TEST(Loader, IsTheSameForAnyWorkersAndPrefetch) {
  const CountingSource source(37, 9, 8);
  const Pipeline pipeline(kAugmentation, 3);
  const Sampler sampler(37, 8, false, true, 5);
  Loader alone(source, pipeline, sampler, options(0, 1));
  const auto wanted = drain(alone);
  ASSERT_EQ(wanted.size(), 12U);
  EXPECT_FALSE(wanted[0].erase.empty());
  EXPECT_NE(wanted[0].images, wanted[5].images);  // the next epoch
  for (const int workers : {1, 3, 8}) {
    for (const int prefetch : {0, 1, 4}) {
      Loader loader(source, pipeline, sampler, options(workers, prefetch));
      EXPECT_EQ(drain(loader), wanted) << workers << " workers, prefetch " << prefetch;
    }
  }
}

TEST(Loader, SharesOfTheRanksMakeTheWholeBatch) {
  const CountingSource source(37, 9, 8);
  const Pipeline pipeline(kAugmentation, 3);
  Loader whole(source, pipeline, Sampler(37, 8, false, true, 5), options(2, 2));
  const auto wanted = drain(whole);
  std::vector<Seen> joined(wanted.size());
  for (int rank = 0; rank < 3; ++rank) {
    Loader loader(source, pipeline, Sampler(37, 8, false, true, 5, rank, 3), options(2, 2));
    const auto steps = drain(loader);
    ASSERT_EQ(steps.size(), wanted.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      joined[i].images.insert(joined[i].images.end(), steps[i].images.begin(),
                              steps[i].images.end());
      joined[i].labels.insert(joined[i].labels.end(), steps[i].labels.begin(),
                              steps[i].labels.end());
    }
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(joined[i].images, wanted[i].images) << i;
    EXPECT_EQ(joined[i].labels, wanted[i].labels) << i;
  }
}

TEST(Loader, StartsAndSeeksAtAnyStep) {
  const CountingSource source(37, 9, 8);
  const Pipeline pipeline(kAugmentation, 3);
  const Sampler sampler(37, 8, false, true, 5);
  Loader all(source, pipeline, sampler, options(0, 1));
  const auto wanted = drain(all);
  for (const int workers : {0, 3}) {
    LoaderOptions late = options(workers, 2);
    late.first_step = 7;
    Loader loader(source, pipeline, sampler, late);
    EXPECT_EQ(seen(*loader.next()), wanted[7]);
    EXPECT_EQ(seen(*loader.next()), wanted[8]);
    for (const std::int64_t step : {2, 11, 0, 9, 9}) {
      loader.seek(step);
      EXPECT_EQ(seen(*loader.next()), wanted[static_cast<std::size_t>(step)]);
    }
    loader.release();
    EXPECT_EQ(seen(*loader.next()), wanted[10]);
    EXPECT_EQ(seen(*loader.next()), wanted[11]);
    EXPECT_EQ(loader.next(), nullptr);
    loader.seek(12);
    EXPECT_EQ(loader.next(), nullptr);
  }
}

TEST(Loader, HoldsBatchesUntilTheyAreReleased) {
  const CountingSource source(64, 4, 4);
  const Pipeline pipeline({}, 3);
  Loader loader(source, pipeline, Sampler(64, 4, false, true, 5), options(3, 2));
  ASSERT_EQ(loader.slots(), 3);
  std::vector<const HostBatch*> held;
  std::vector<Seen> copies;
  for (int i = 0; i < 3; ++i) {
    held.push_back(loader.next());
    copies.push_back(seen(*held.back()));
  }
  EXPECT_THROW(loader.next(), std::logic_error);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(seen(*held[i]), copies[i]);
  loader.release();
  EXPECT_EQ(loader.next(), held[0]);  // the oldest slot, at its old address
  for (int i = 0; i < 3; ++i) loader.release();
  EXPECT_THROW(loader.release(), std::logic_error);
}

TEST(Loader, AllocatesOncePerSlot) {
  const CountingSource source(64, 4, 4);
  const Pipeline pipeline(kAugmentation, 3);
  int calls = 0;
  std::size_t bytes = 0;
  LoaderOptions counted = options(2, 3, 40);
  counted.allocate = [&](std::size_t size) {
    ++calls;
    bytes = size;
    return host_allocator(false)(size);
  };
  Loader loader(source, pipeline, Sampler(64, 10, false, true, 5), counted);
  drain(loader);
  EXPECT_EQ(calls, 4);
  EXPECT_EQ(bytes, loader.slot_bytes());
  EXPECT_GE(bytes, 10U * (6 * 6 * 3 + 8 + 16));
}

TEST(Loader, RethrowsForTheEarliestSample) {
  CountingSource source(60, 4, 4);
  const Pipeline pipeline({}, 3);
  const Sampler sampler(60, 10, false, true, 5);
  // Positions 23 and 27 of the epoch, in step 2.
  const std::int64_t early = sampler.sample(0, 23);
  const std::int64_t late = sampler.sample(0, 27);
  source.broken = [=](std::int64_t index) { return index == early || index == late; };
  LoaderOptions sized = options(0, 3);
  for (const int workers : {0, 1, 4}) {
    sized.workers = workers;
    Loader loader(source, pipeline, sampler, sized);
    for (int step = 0; step < 2; ++step) {
      ASSERT_NE(loader.next(), nullptr);
      loader.release();
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      EXPECT_EQ(error_of(Exit::data, [&] { loader.next(); }),
                "sample " + std::to_string(early) + " of counting: broken on purpose");
    }
    loader.seek(3);
    EXPECT_EQ(loader.next()->step, 3);
  }
}

TEST(Loader, NamesASampleOfAnotherSize) {
  CountingSource source(20, 4, 4);
  source.taller = [](std::int64_t index) { return index == 13; };
  const Pipeline pipeline({}, 3);
  Loader loader(source, pipeline, Sampler(20, 20, false, true, 5), options(2, 1));
  EXPECT_THAT(error_of(Exit::data, [&] { loader.next(); }),
              AllOf(HasSubstr("sample 13 of counting"), HasSubstr("5x4 pixels with 3 channels"),
                    HasSubstr("holds images of 4x4"), HasSubstr("{center_crop: 224}")));
}

TEST(Loader, NamesTheSampleThatATransformRefuses) {
  const CountingSource source(20, 4, 4);
  const Pipeline pipeline({config::RandomCrop{6, 0}}, 3);
  Loader loader(source, pipeline, Sampler(20, 20, false, false, 5), options(2, 1));
  EXPECT_THAT(error_of(Exit::data, [&] { loader.next(); }),
              HasSubstr("sample 0 of counting: random_crop needs 6x6 pixels"));
}

TEST(Loader, EvaluationDrawsTheSameInEveryEpoch) {
  const CountingSource source(8, 9, 8);
  const Pipeline pipeline(kAugmentation, 3);
  LoaderOptions evaluation = options(2, 1, 2);
  evaluation.augment = false;
  Loader loader(source, pipeline, Sampler(8, 8, false, false, 5), evaluation);
  const auto steps = drain(loader);
  EXPECT_EQ(steps[0].images, steps[1].images);
  Loader training(source, pipeline, Sampler(8, 8, false, false, 5), options(2, 1, 2));
  const auto augmented = drain(training);
  EXPECT_NE(augmented[0].images, augmented[1].images);
}

TEST(Loader, StopsAtAnyTime) {
  const CountingSource source(1000, 16, 16);
  const Pipeline pipeline(kAugmentation, 3);
  for (int taken = 0; taken < 20; ++taken) {
    Loader loader(source, pipeline, Sampler(1000, 7, false, true, 5), options(4, 3, 1000));
    for (int i = 0; i < taken % 5; ++i) {
      ASSERT_NE(loader.next(), nullptr);
      loader.release();
    }
    if (taken % 3 == 0) loader.seek(taken);
  }
}

TEST(Loader, CountsBytesOnce) {
  const CountingSource source(20, 4, 4);
  const Pipeline pipeline({config::CenterCrop{4}}, 3);
  Loader loader(source, pipeline, Sampler(20, 10, false, true, 5), options(2, 2, 4));
  drain(loader);
  EXPECT_EQ(loader.take_times().read_bytes, 40 * 48);
  EXPECT_EQ(loader.take_times().read_bytes, 0);
}

TEST(Loader, AShareMayBeEmpty) {
  const CountingSource source(9, 4, 4);
  const Pipeline pipeline({}, 3);
  for (const int workers : {0, 2}) {
    // The tail is one sample: rank 1 gets none of it.
    Loader loader(source, pipeline, Sampler(9, 4, false, true, 5, 1, 2), options(workers, 1, 4));
    const auto steps = drain(loader);
    ASSERT_EQ(steps.size(), 4U);
    EXPECT_EQ(steps[1].labels.size(), 2U);
    EXPECT_TRUE(steps[2].labels.empty());
    EXPECT_EQ(steps[3].labels.size(), 2U);
  }
}

}  // namespace
}  // namespace trainer::data

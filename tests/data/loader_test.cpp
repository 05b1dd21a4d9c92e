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
  options.samples.seed = 11;
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
      image = source.picture(index);
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
  EXPECT_THAT(error_of(Exit::config, [&] { loader.next(); }),
              AllOf(HasSubstr("sample 13 of counting"), HasSubstr("5x4 pixels"),
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
  evaluation.samples.augment = false;
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
  EXPECT_EQ(loader.take_times().stages.read_bytes, 40 * 48);
  EXPECT_EQ(loader.take_times().stages.read_bytes, 0);
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

// --- bad samples ---------------------------------------------------------------------------------
// Every fifth sample cannot be read.
struct Policy {
  explicit Policy(config::BadSample policy, int workers, int prefetch = 2)
      : source(25, 4, 3), pipeline({}, 3), loader(broken(source), pipeline, sampler(), [&] {
          LoaderOptions all = options(workers, prefetch, 6);
          all.on_bad_sample = policy;
          return all;
        }()) {}
  static CountingSource& broken(CountingSource& source) {
    source.broken = [](std::int64_t index) { return index % 5 == 4; };
    source.weights = [](std::int64_t index) { return static_cast<float>(index + 1); };
    return source;
  }
  static Sampler sampler() { return {25, 10, false, true, 5}; }

  CountingSource source;
  Pipeline pipeline;
  Loader loader;
};

// What a batch holds, by the samples' indices.
std::vector<std::int64_t> indices(const HostBatch& batch, const CountingSource& source) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < batch.size; ++i) {
    for (std::int64_t index = 0; index < source.size(); ++index) {
      const Image picture = source.picture(index);
      if (std::equal(picture.pixels.begin(), picture.pixels.end(), batch.images.begin() + 36 * i) &&
          batch.labels[static_cast<std::size_t>(i)] == index % 10 &&
          batch.weights[static_cast<std::size_t>(i)] == static_cast<float>(index + 1))
        all.push_back(index);
    }
  }
  return all;
}

TEST(LoaderPolicy, FailNamesTheFirstBadSample) {
  Policy setup(config::BadSample::fail, 3);
  EXPECT_THROW(while (setup.loader.next() != nullptr) setup.loader.release(), Error);
}

TEST(LoaderPolicy, SkipLeavesOutWithoutAGap) {
  for (const int workers : {0, 3}) {
    Policy setup(config::BadSample::skip, workers);
    while (const HostBatch* batch = setup.loader.next()) {
      std::vector<std::int64_t> wanted;
      std::vector<std::int64_t> bad;
      double weight = 0;
      for (std::int64_t at = batch->place.share.begin; at < batch->place.share.end; ++at) {
        const std::int64_t index = Policy::sampler().sample(batch->place.epoch, at);
        (index % 5 == 4 ? bad : wanted).push_back(index);
        if (index % 5 != 4) weight += static_cast<double>(index + 1);
      }
      EXPECT_EQ(indices(*batch, setup.source), wanted);
      EXPECT_EQ(batch->weight, weight);
      ASSERT_EQ(batch->bad.size(), bad.size());
      for (std::size_t i = 0; i < bad.size(); ++i) {
        EXPECT_EQ(batch->bad[i].index, bad[i]);
        EXPECT_EQ(batch->bad[i].replaced_by, std::nullopt);
        EXPECT_EQ(batch->bad[i].reason,
                  "sample " + std::to_string(bad[i]) + " of counting: broken on purpose");
      }
      setup.loader.release();
    }
  }
}

TEST(LoaderPolicy, ReplaceIsTheSameForAnyWorkersAndPrefetch) {
  std::vector<std::vector<std::int64_t>> wanted;
  for (const int workers : {0, 1, 3, 8}) {
    Policy setup(config::BadSample::replace, workers, workers == 8 ? 5 : 1);
    std::vector<std::vector<std::int64_t>> got;
    while (const HostBatch* batch = setup.loader.next()) {
      got.push_back(indices(*batch, setup.source));
      EXPECT_EQ(batch->size, batch->place.share.size());
      for (const BadSample& bad : batch->bad) {
        EXPECT_EQ(bad.index % 5, 4);
        ASSERT_TRUE(bad.replaced_by.has_value());
        EXPECT_NE(*bad.replaced_by % 5, 4);
      }
      setup.loader.release();
    }
    if (wanted.empty()) wanted = got;
    EXPECT_EQ(got, wanted) << workers << " workers";
  }
  ASSERT_EQ(wanted.size(), 6U);
}

// Batches of ten, of which the first of each epoch is all bad.
TEST(LoaderPolicy, OneOfABatchOfBadSamplesIsReplaced) {
  CountingSource source(20, 4, 3);
  source.broken = [](std::int64_t index) { return index < 10; };
  const Pipeline pipeline({config::CenterCrop{4}}, 3);
  LoaderOptions all = options(2, 1, 2);
  all.on_bad_sample = config::BadSample::skip;
  Loader loader(source, pipeline, Sampler(20, 10, false, false, 5), all);
  const HostBatch* batch = loader.next();
  EXPECT_EQ(batch->size, 1);
  EXPECT_EQ(batch->weight, 1.0);
  ASSERT_EQ(batch->bad.size(), 10U);
  ASSERT_TRUE(batch->bad[0].replaced_by.has_value());
  EXPECT_GE(*batch->bad[0].replaced_by, 10);
  EXPECT_EQ(batch->labels[0], *batch->bad[0].replaced_by % 10);
  EXPECT_EQ(batch->bad[1].replaced_by, std::nullopt);
  loader.release();
  EXPECT_EQ(loader.next()->size, 10);
}

TEST(LoaderPolicy, AnEvaluationsBatchMayBeEmpty) {
  CountingSource source(20, 4, 3);
  source.broken = [](std::int64_t index) { return index < 10; };
  const Pipeline pipeline({config::CenterCrop{4}}, 3);
  LoaderOptions all = options(2, 1, 2);
  all.on_bad_sample = config::BadSample::skip;
  all.may_be_empty = true;
  Loader loader(source, pipeline, Sampler(20, 10, false, false, 5), all);
  const HostBatch* batch = loader.next();
  EXPECT_EQ(batch->size, 0);
  EXPECT_EQ(batch->bad.size(), 10U);
  loader.release();
  EXPECT_EQ(loader.next()->size, 10);
}

TEST(LoaderPolicy, NothingToStandInIsAnErrorThatNamesTheSample) {
  CountingSource source(20, 4, 3);
  source.broken = [](std::int64_t) { return true; };
  const Pipeline pipeline({config::CenterCrop{4}}, 3);
  LoaderOptions all = options(2, 1, 2);
  for (const auto policy : {config::BadSample::replace, config::BadSample::skip}) {
    all.on_bad_sample = policy;
    Loader loader(source, pipeline, Sampler(20, 10, false, false, 5), all);
    for (int call = 0; call < 2; ++call) {
      EXPECT_THAT(error_of(Exit::data, [&] { loader.next(); }),
                  AllOf(HasSubstr("none of 100 samples could stand in for sample 0 of counting"),
                        HasSubstr("broken on purpose")));
    }
  }
}

TEST(Loader, CarriesWeights) {
  CountingSource source(10, 4, 3);
  source.weights = [](std::int64_t index) { return 0.5F * static_cast<float>(index); };
  const Pipeline pipeline({}, 3);
  Loader loader(source, pipeline, Sampler(10, 10, false, false, 5), options(2, 1, 1));
  const HostBatch* batch = loader.next();
  ASSERT_EQ(batch->weights.size(), 10U);
  EXPECT_EQ(batch->weights[7], 3.5F);
  EXPECT_EQ(batch->weight, 22.5);
}

}  // namespace
}  // namespace trainer::data

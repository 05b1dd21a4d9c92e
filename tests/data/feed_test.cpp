#include "data/feed.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "data/mixing.h"
#include "support.h"

namespace trainer::data {
namespace {

float difference(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item<float>();
}

const std::vector<config::Transform> kPlain{config::Normalize{{0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}}};
const std::vector<config::Transform> kErasing{config::RandomCrop{5, 1},
                                              config::Normalize{{0.4, 0.5, 0.6}, {0.2, 0.25, 0.3}},
                                              config::RandomErasing{.p = 0.7}};

// A loader and a feed on it.
struct FeedSetup {
  FeedSetup(std::int64_t samples, std::int64_t global,
            const std::vector<config::Transform>& transforms, std::optional<config::Mix> mix = {},
            at::Device device = at::kCPU, at::MemoryFormat format = at::MemoryFormat::Contiguous,
            int channels = 3, int ranks = 1, int rank = 0)
      : source(samples, 5, 5, channels),
        pipeline(transforms, channels),
        loader(source, pipeline, Sampler(samples, global, false, true, 9, rank, ranks),
               loader_options(device)),
        feed(loader, pipeline.normalisation(), pipeline.erases(),
             {.device = device, .memory_format = format, .classes = 10, .mix = mix, .seed = 4}) {}

  static LoaderOptions loader_options(at::Device device) {
    LoaderOptions options;
    options.workers = 2;
    options.prefetch = 2;
    options.samples.seed = 9;
    options.last_step = 20;
    options.allocate = host_allocator(!device.is_cpu());
    return options;
  }

  CountingSource source;
  Pipeline pipeline;
  Loader loader;
  Feed feed;
};

TEST(Feed, NormalisesPixels) {
  FeedSetup setup(12, 5, kPlain);
  const Sampler sampler(12, 5, false, true, 9);
  Image image;
  for (std::int64_t step = 0; step < 6; ++step) {
    const StepBatch* batch = setup.feed.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->step(), step);
    const Batch all = batch->micro(0, batch->size());
    EXPECT_EQ(all.input.sizes(), at::IntArrayRef({batch->size(), 3, 5, 5}));
    EXPECT_EQ(all.input.scalar_type(), at::kFloat);
    EXPECT_TRUE(all.input.is_contiguous());
    EXPECT_EQ(all.first_position, batch->place().share.begin);
    EXPECT_TRUE(at::equal(all.weight, at::ones({batch->size()})));
    EXPECT_EQ(all.target.scalar_type(), at::kLong);
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      const std::int64_t index = sampler.sample(step / 3, batch->place().share.begin + i);
      EXPECT_EQ(all.target[i].item<std::int64_t>(), index % 10);
      image = setup.source.picture(index);
      for (int c = 0; c < 3; ++c) {
        const double pixel = image.pixels[static_cast<std::size_t>((2 * 5 + 3) * 3 + c)];
        EXPECT_NEAR(all.input[i][c][2][3].item<double>(),
                    (pixel / 255 - (0.4 + 0.1 * c)) / (0.2 + 0.05 * c), 1e-5);
      }
    }
  }
}

TEST(Feed, EndsAfterTheLastStep) {
  FeedSetup setup(12, 5, kPlain);
  for (int step = 0; step < 20; ++step) ASSERT_NE(setup.feed.next(), nullptr);
  EXPECT_EQ(setup.feed.next(), nullptr);
  EXPECT_EQ(setup.feed.next(), nullptr);
}

TEST(Feed, KeepsChannelsLast) {
  FeedSetup last(12, 5, kPlain, {}, at::kCPU, at::MemoryFormat::ChannelsLast);
  FeedSetup first(12, 5, kPlain);
  const at::Tensor input = last.feed.next()->micro(1, 4).input;
  EXPECT_TRUE(input.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(at::equal(input, first.feed.next()->micro(1, 4).input));
}

TEST(Feed, TakesGreyImages) {
  FeedSetup setup(12, 5, {}, {}, at::kCPU, at::MemoryFormat::Contiguous, 1);
  const at::Tensor input = setup.feed.next()->micro(0, 5).input;
  EXPECT_EQ(input.sizes(), at::IntArrayRef({5, 1, 5, 5}));
  EXPECT_TRUE(input.is_contiguous());
}

TEST(Feed, ErasesRectanglesToZero) {
  FeedSetup setup(40, 20, kErasing);
  FeedSetup plain(40, 20, {kErasing[0], kErasing[1]});
  const StepBatch* batch = setup.feed.next();
  const at::Tensor input = batch->micro(0, 20).input;
  const at::Tensor whole = plain.feed.next()->micro(0, 20).input;
  // The rectangles, from the loader's own numbers.
  Loader loader(setup.source, setup.pipeline, Sampler(40, 20, false, true, 9),
                FeedSetup::loader_options(at::kCPU));
  const HostBatch* host = loader.next();
  int erased = 0;
  for (std::int64_t i = 0; i < 20; ++i) {
    const auto box = host->erase.subspan(static_cast<std::size_t>(4 * i), 4);
    erased += box[2] > 0 ? 1 : 0;
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 5; ++x) {
        const bool inside =
            y >= box[0] && y < box[0] + box[2] && x >= box[1] && x < box[1] + box[3];
        EXPECT_EQ(input[i][1][y][x].item<float>(), inside ? 0.0F : whole[i][1][y][x].item<float>());
      }
    }
  }
  EXPECT_GT(erased, 5);
  EXPECT_LT(erased, 20);
}

struct Joined {
  at::Tensor input, target, weight;
};

Joined joined(const StepBatch& batch, std::int64_t micro) {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  std::vector<at::Tensor> weights;
  for (std::int64_t begin = 0; begin < batch.size(); begin += micro) {
    const Batch part = batch.micro(begin, std::min(begin + micro, batch.size()));
    EXPECT_EQ(part.first_position, batch.place().share.begin + begin);
    inputs.push_back(part.input);
    targets.push_back(part.target);
    weights.push_back(part.weight);
  }
  return {at::cat(inputs), at::cat(targets), at::cat(weights)};
}

void expect_cuts_equal(at::Device device, at::MemoryFormat format) {
  const std::vector<std::optional<config::Mix>> mixes{
      {}, config::Mix{0.4, 0, 1}, config::Mix{0, 1, 1}, config::Mix{0.4, 1, 0.6}};
  for (const auto& mix : mixes) {
    FeedSetup setup(43, 17, kErasing, mix, device, format);
    for (int step = 0; step < 6; ++step) {
      const StepBatch* batch = setup.feed.next();
      const Joined whole = joined(*batch, batch->size());
      for (const std::int64_t micro : {1, 2, 3, 8, 16}) {
        const Joined cut = joined(*batch, micro);
        EXPECT_TRUE(at::equal(cut.input, whole.input)) << micro;
        EXPECT_TRUE(at::equal(cut.target, whole.target)) << micro;
        EXPECT_TRUE(at::equal(cut.weight, whole.weight)) << micro;
      }
    }
  }
}

TEST(Feed, ValuesDoNotDependOnTheCut) {
  expect_cuts_equal(at::kCPU, at::MemoryFormat::Contiguous);
  expect_cuts_equal(at::kCPU, at::MemoryFormat::ChannelsLast);
}

TEST(Feed, ValuesDoNotDependOnTheRanks) {
  const config::Mix mix{0.4, 1, 0.8};
  FeedSetup whole(40, 16, kErasing, mix);
  FeedSetup first(40, 16, kErasing, mix, at::kCPU, at::MemoryFormat::Contiguous, 3, 2, 0);
  FeedSetup second(40, 16, kErasing, mix, at::kCPU, at::MemoryFormat::Contiguous, 3, 2, 1);
  for (int step = 0; step < 6; ++step) {
    const Joined all = joined(*whole.feed.next(), 16);
    const Joined a = joined(*first.feed.next(), 3);
    const Joined b = joined(*second.feed.next(), 5);
    EXPECT_TRUE(at::equal(at::cat({a.input, b.input}), all.input)) << step;
    EXPECT_TRUE(at::equal(at::cat({a.target, b.target}), all.target)) << step;
  }
}

TEST(Feed, MixupBlendsNeighboursAndTheirTargets) {
  FeedSetup mixed(15, 5, kPlain, config::Mix{1, 0, 1});
  FeedSetup plain(15, 5, kPlain);
  for (int step = 0; step < 3; ++step) {
    const auto lambda = static_cast<float>(draw_mixing({1, 0, 1}, 4, step, 5, 5).lambda);
    const Batch got = mixed.feed.next()->micro(0, 5);
    const Batch own = plain.feed.next()->micro(0, 5);
    EXPECT_EQ(got.target.scalar_type(), at::kFloat);
    const std::vector<std::int64_t> partner{1, 0, 3, 2, 4};  // the odd one has itself
    for (std::int64_t i = 0; i < 5; ++i) {
      const std::int64_t other = partner[static_cast<std::size_t>(i)];
      const at::Tensor wanted = own.input[i].mul(lambda).add(own.input[other].mul(1 - lambda));
      EXPECT_LT(difference(got.input[i], wanted), 1e-5F);
      std::vector<float> target(10);
      target[static_cast<std::size_t>(own.target[i].item<std::int64_t>())] += lambda;
      target[static_cast<std::size_t>(own.target[other].item<std::int64_t>())] += 1 - lambda;
      for (std::int64_t c = 0; c < 10; ++c) {
        EXPECT_NEAR(got.target[i][c].item<float>(), target[static_cast<std::size_t>(c)], 1e-6F);
      }
    }
  }
}

TEST(Feed, CutmixPastesTheNeighboursBox) {
  FeedSetup mixed(16, 4, kPlain, config::Mix{0, 1, 1});
  FeedSetup plain(16, 4, kPlain);
  for (int step = 0; step < 8; ++step) {
    const Mixing mixing = draw_mixing({0, 1, 1}, 4, step, 5, 5);
    const Rectangle& box = mixing.box;
    const Batch got = mixed.feed.next()->micro(0, 4);
    const Batch own = plain.feed.next()->micro(0, 4);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (int y = 0; y < 5; ++y) {
        for (int x = 0; x < 5; ++x) {
          const bool inside =
              y >= box.top && y < box.top + box.height && x >= box.left && x < box.left + box.width;
          EXPECT_EQ(got.input[i][2][y][x].item<float>(),
                    own.input[inside ? i ^ 1 : i][2][y][x].item<float>());
        }
      }
      EXPECT_NEAR(got.target[i].sum().item<double>(), 1.0, 1e-6);
    }
  }
}

TEST(Feed, TargetsAreSoftWhereverAMixIsSet) {
  FeedSetup setup(16, 4, kPlain, config::Mix{1, 0, 0});
  const Batch batch = setup.feed.next()->micro(0, 4);
  EXPECT_EQ(batch.target.sizes(), at::IntArrayRef({4, 10}));
  EXPECT_EQ(batch.target.max().item<float>(), 1.0F);
  EXPECT_EQ(batch.target.sum().item<float>(), 4.0F);
}

TEST(Feed, SeeksAndCarriesErrors) {
  FeedSetup setup(60, 10, kPlain);
  std::vector<at::Tensor> inputs;
  for (int step = 0; step < 5; ++step)
    inputs.push_back(setup.feed.next()->micro(0, 10).input.clone());
  for (const std::int64_t step : {3, 0, 4}) {
    setup.feed.seek(step);
    const StepBatch* batch = setup.feed.next();
    EXPECT_EQ(batch->step(), step);
    EXPECT_TRUE(at::equal(batch->micro(0, 10).input, inputs[static_cast<std::size_t>(step)]));
  }
  EXPECT_GE(setup.feed.take_times().stages.read_bytes, 8 * 10 * 75);
}

bool has_cuda() { return at::hasCUDA(); }

TEST(GpuFeed, EqualsTheCpu) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device";
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    FeedSetup gpu(43, 17, kErasing, config::Mix{0.4, 1, 0.6}, at::kCUDA, format);
    FeedSetup cpu(43, 17, kErasing, config::Mix{0.4, 1, 0.6}, at::kCPU, format);
    for (int step = 0; step < 20; ++step) {
      const StepBatch* batch = gpu.feed.next();
      const Batch got = batch->micro(0, batch->size());
      const StepBatch* other = cpu.feed.next();
      const Batch wanted = other->micro(0, other->size());
      EXPECT_TRUE(got.input.is_cuda());
      EXPECT_TRUE(got.input.is_contiguous(format));
      EXPECT_LT(difference(got.input.cpu(), wanted.input), 1e-6F);
      EXPECT_LT(difference(got.target.cpu(), wanted.target), 1e-6F);
    }
    EXPECT_EQ(gpu.feed.next(), nullptr);
  }
}

TEST(GpuFeed, ValuesDoNotDependOnTheCut) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device";
  expect_cuts_equal(at::kCUDA, at::MemoryFormat::ChannelsLast);
}

// The device is kept so busy that the host runs ahead of it: a buffer that were overwritten too
// early would show in the values.
TEST(GpuFeed, BuffersAreSafeWhileTheDeviceIsBehind) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device";
  FeedSetup gpu(43, 17, kErasing, {}, at::kCUDA);
  FeedSetup cpu(43, 17, kErasing);
  at::Tensor load = at::ones({4096, 4096}, at::kCUDA).mul_(1e-4);
  std::vector<at::Tensor> inputs;
  while (const StepBatch* batch = gpu.feed.next()) {
    for (int i = 0; i < 10; ++i) load = at::matmul(load, load);
    inputs.push_back(batch->micro(0, batch->size()).input);
  }
  ASSERT_EQ(inputs.size(), 20U);
  for (const at::Tensor& input : inputs) {
    const StepBatch* batch = cpu.feed.next();
    EXPECT_LT(difference(input.cpu(), batch->micro(0, batch->size()).input), 1e-6F);
  }
}

TEST(GpuFeed, SeeksAndStops) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device";
  FeedSetup gpu(60, 10, kPlain, {}, at::kCUDA);
  FeedSetup cpu(60, 10, kPlain);
  for (const std::int64_t step : {0, 7, 3, 19}) {
    gpu.feed.seek(step);
    cpu.feed.seek(step);
    for (int i = 0; i < 1 + step % 3; ++i) {
      const StepBatch* batch = gpu.feed.next();
      const StepBatch* other = cpu.feed.next();
      ASSERT_EQ(batch == nullptr, other == nullptr);
      if (batch == nullptr) break;
      EXPECT_EQ(batch->step(), other->step());
      EXPECT_LT(difference(batch->micro(0, 10).input.cpu(), other->micro(0, 10).input), 1e-6F);
    }
  }
}

TEST(GpuFeed, CarriesAnErrorToItsOwnStep) {
  if (!has_cuda()) GTEST_SKIP() << "no CUDA device";
  FeedSetup gpu(60, 10, kPlain, {}, at::kCUDA);
  const std::int64_t bad = Sampler(60, 10, false, true, 9).sample(1, 5);  // step 6
  gpu.source.broken = [bad](std::int64_t index) { return index == bad; };
  gpu.feed.seek(5);
  EXPECT_EQ(gpu.feed.next()->step(), 5);
  EXPECT_EQ(error_of(Exit::data, [&] { gpu.feed.next(); }),
            "sample " + std::to_string(bad) + " of counting: broken on purpose");
}

}  // namespace
}  // namespace trainer::data

#include "engine/bench_verdict.h"

#include <gtest/gtest.h>

namespace trainer::engine {
namespace {

BenchSetting on_gpu() {
  BenchSetting setting;
  setting.cuda = true;
  setting.workers = 16;
  setting.cpus = 16;
  return setting;
}

TEST(BenchVerdict, NumbersHaveSeparators) {
  EXPECT_EQ(with_separators(0.4), "0");
  EXPECT_EQ(with_separators(999.4), "999");
  EXPECT_EQ(with_separators(1000), "1,000");
  EXPECT_EQ(with_separators(1234567.5), "1,234,568");
}

TEST(BenchVerdict, DecodingThatTheGpuDoesFaster) {
  BenchRates rates;
  rates.read = 20000;
  rates.decode = 1400;
  rates.transform = 9000;
  rates.host = 1210;
  rates.delivered = 1200;
  rates.step = 4700;
  BenchSetting setting = on_gpu();
  setting.with_gpu_decode = 2900;
  EXPECT_EQ(bench_verdict(rates, setting),
            "bound by decoding: the loader makes 1,200 images/s and the step could take 4,700 "
            "images/s, 3.9 times as many; try data.loader.decode: gpu, which delivers 2,900 "
            "images/s.");
}

TEST(BenchVerdict, DecodingWithFewerWorkersThanCpus) {
  BenchRates rates;
  rates.read = 20000;
  rates.decode = 1400;
  rates.transform = 9000;
  rates.host = 1200;
  rates.step = 2400;
  BenchSetting setting = on_gpu();
  setting.workers = 4;
  EXPECT_EQ(bench_verdict(rates, setting),
            "bound by decoding: the loader makes 1,200 images/s and the step could take 2,400 "
            "images/s, 2.0 times as many; try data.loader.workers: 16 instead of 4.");
}

TEST(BenchVerdict, Reading) {
  BenchRates rates;
  rates.read = 1300;
  rates.decode = 14000;
  rates.transform = 9000;
  rates.host = 1200;
  rates.delivered = 1200;
  rates.step = 2400;
  const std::string verdict = bench_verdict(rates, on_gpu());
  EXPECT_TRUE(verdict.starts_with("bound by reading: ")) << verdict;
  EXPECT_NE(verdict.find("data.loader.cache: ram"), std::string::npos) << verdict;
}

TEST(BenchVerdict, Copying) {
  BenchRates rates;
  rates.host = 9000;
  rates.copy = 2100;
  rates.delivered = 2000;
  rates.step = 2400;
  const std::string verdict = bench_verdict(rates, on_gpu());
  EXPECT_TRUE(verdict.starts_with("bound by copying to the GPU: ")) << verdict;
}

TEST(BenchVerdict, TheGpusDecoder) {
  BenchRates rates;
  rates.decode = 1000;
  rates.host = 9000;
  rates.delivered = 2000;
  rates.step = 2400;
  BenchSetting setting = on_gpu();
  setting.gpu_decode = true;
  const std::string verdict = bench_verdict(rates, setting);
  EXPECT_TRUE(verdict.starts_with("bound by decoding on the GPU: ")) << verdict;
}

TEST(BenchVerdict, TheStep) {
  BenchRates rates;
  rates.delivered = 9000;
  rates.step = 3000;
  rates.all = 2950;
  EXPECT_EQ(bench_verdict(rates, on_gpu()),
            "bound by the GPU's step: it takes 3,000 images/s and the loader could give 9,000 "
            "images/s, 3.0 times as many. Try precision.mode: bf16; a faster loader would change "
            "nothing.");
}

TEST(BenchVerdict, TogetherSlowerThanEither) {
  BenchRates rates;
  rates.host = 1000;
  rates.step = 400;
  rates.all = 300;
  const std::string verdict = bench_verdict(rates, {});
  EXPECT_TRUE(verdict.starts_with("bound by the training step on the CPU: ")) << verdict;
  EXPECT_NE(verdict.find("Together they reach only 300 images/s"), std::string::npos) << verdict;
}

TEST(BenchVerdict, NeedsAStepAndASupply) {
  BenchRates rates;
  rates.host = 1000;
  EXPECT_EQ(bench_verdict(rates, {}), "no verdict: it needs the stages step and host or delivered");
}

}  // namespace
}  // namespace trainer::engine

#include "data/token_feed.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "text/text_test.h"

namespace trainer::data {
namespace {

constexpr std::int64_t kLength = 16;
constexpr std::int64_t kSteps = 30;

Windows make_windows(config::Packing packing) {
  TokenBlock block;
  for (std::int64_t document = 0; document < 90; ++document) {
    for (std::int64_t i = 0; i < 2 + document * 5 % 29; ++i) {
      block.ids.push_back(static_cast<TokenId>(1 + block.ids.size() * 31 % 60000));
      block.learnt.push_back(i % 3 == 0 ? 0 : 1);
    }
    block.ends.push_back(block.ids.size());
  }
  config::TokenSource source;
  source.length = kLength;
  source.packing = packing;
  return Windows(corpus_of(block), source);
}

Sampler sampler(const Windows& windows) { return Sampler(windows.size(), 7, false, true, 5); }

TokenFeedOptions options(int workers, at::Device device = at::kCPU) {
  TokenFeedOptions options;
  options.device = device;
  options.workers = workers;
  options.last_step = kSteps;
  return options;
}

// All of a step, cut into micro-batches.
std::vector<at::Tensor> joined(const StepBatch& batch, std::int64_t micro) {
  std::vector<std::vector<at::Tensor>> parts(5);
  for (std::int64_t begin = 0; begin < batch.size(); begin += micro) {
    const Batch part = batch.micro(begin, std::min(begin + micro, batch.size()));
    EXPECT_EQ(part.first_position, batch.place().share.begin + begin);
    parts[0].push_back(part.input);
    parts[1].push_back(part.target);
    parts[2].push_back(part.weight);
    if (part.documents.defined()) parts[3].push_back(part.documents);
    if (part.positions.defined()) parts[4].push_back(part.positions);
  }
  std::vector<at::Tensor> tensors;
  for (const auto& part : parts)
    tensors.push_back(part.empty() ? at::Tensor() : at::cat(part).cpu().clone());
  return tensors;
}

void expect_equal(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(got[i].defined(), wanted[i].defined()) << i;
    if (!wanted[i].defined()) continue;
    EXPECT_TRUE(at::equal(got[i], wanted[i])) << i;
  }
}

class TokenFeedTest : public testing::TestWithParam<config::Packing> {};

TEST_P(TokenFeedTest, GivesTokensAndTheirTargets) {
  const Windows windows = make_windows(GetParam());
  TokenFeed feed(windows, sampler(windows), options(2));
  const Sampler order = sampler(windows);
  std::vector<std::int32_t> row(4 * kLength);
  const auto part = [&row](std::int64_t i) { return row.data() + i * kLength; };
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const StepBatch* batch = feed.next();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->step(), step);
    EXPECT_TRUE(batch->bad().empty());
    const Batch all = batch->micro(0, batch->size());
    EXPECT_EQ(all.input.scalar_type(), at::kLong);
    EXPECT_EQ(all.target.scalar_type(), at::kLong);
    EXPECT_EQ(all.input.sizes(), at::IntArrayRef({batch->size(), kLength}));
    EXPECT_TRUE(at::equal(all.weight, at::ones({batch->size()})));
    EXPECT_EQ(all.documents.defined(), windows.packed());
    EXPECT_EQ(batch->weight(), all.target.ne(kIgnored).sum().item<double>());
    for (std::int64_t i = 0; i < batch->size(); ++i) {
      windows.fill(order.sample(batch->place().epoch, batch->place().share.begin + i),
                   {part(0), part(1), part(2), part(3)});
      for (std::int64_t at = 0; at < kLength; ++at) {
        EXPECT_EQ(all.input[i][at].item<std::int64_t>(), part(0)[at]);
        EXPECT_EQ(all.target[i][at].item<std::int64_t>(), part(1)[at]);
        if (!windows.packed()) continue;
        EXPECT_EQ(all.documents[i][at].item<std::int64_t>(), part(2)[at]);
        EXPECT_EQ(all.positions[i][at].item<std::int64_t>(), part(3)[at]);
      }
    }
    if (step != 2) continue;
    step = kSteps - 3;
    feed.seek(step + 1);
  }
  EXPECT_EQ(feed.next(), nullptr);
}

TEST_P(TokenFeedTest, DoesNotDependOnWorkersAndCuts) {
  const Windows windows = make_windows(GetParam());
  TokenFeed reference(windows, sampler(windows), options(0));
  TokenFeed other(windows, sampler(windows), options(3));
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const StepBatch* wanted = reference.next();
    const StepBatch* got = other.next();
    EXPECT_EQ(got->weight(), wanted->weight());
    expect_equal(joined(*got, 1 + step % 7), joined(*wanted, 7));
  }
  EXPECT_GT(other.take_times().stages.read_bytes, 0);
}

TEST_P(TokenFeedTest, GoesOnFromAnyStep) {
  const Windows windows = make_windows(GetParam());
  std::vector<std::vector<at::Tensor>> wanted;
  TokenFeed reference(windows, sampler(windows), options(0));
  while (const StepBatch* batch = reference.next()) wanted.push_back(joined(*batch, 7));
  TokenFeedOptions later = options(2);
  later.first_step = 9;
  TokenFeed feed(windows, sampler(windows), later);
  expect_equal(joined(*feed.next(), 7), wanted[9]);
  feed.seek(3);
  for (std::size_t step = 3; step < wanted.size(); ++step)
    expect_equal(joined(*feed.next(), 7), wanted[step]);
}

// The host runs ahead of work that keeps the device busy, with fewer slots than steps.
TEST_P(TokenFeedTest, GpuGivesTheCpusBatches) {
  if (!at::globalContext().hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const Windows windows = make_windows(GetParam());
  const at::Device device(at::kCUDA, 0);
  const at::Tensor busy = at::ones({2048, 2048}, at::TensorOptions(device).dtype(at::kFloat));
  for (const int workers : {0, 1, 3}) {
    TokenFeed cpu(windows, sampler(windows), options(0));
    TokenFeed gpu(windows, sampler(windows), options(workers, device));
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> targets;
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const StepBatch* batch = gpu.next();
      ASSERT_NE(batch, nullptr);
      for (int i = 0; i < 5; ++i) at::matmul(busy, busy);
      const Batch all = batch->micro(0, batch->size());
      inputs.push_back(all.input.clone());
      targets.push_back(all.target.clone());
      if (step % 11 == 10) gpu.seek(step + 1);
    }
    EXPECT_EQ(gpu.next(), nullptr);
    for (std::size_t step = 0; step < kSteps; ++step) {
      const StepBatch* wanted = cpu.next();
      const Batch all = wanted->micro(0, wanted->size());
      EXPECT_TRUE(at::equal(inputs[step].cpu(), all.input)) << step;
      EXPECT_TRUE(at::equal(targets[step].cpu(), all.target)) << step;
    }
    gpu.seek(4);
    cpu.seek(4);
    expect_equal(joined(*gpu.next(), 2), joined(*cpu.next(), 7));
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenFeedTest,
                         testing::Values(config::Packing::sequential, config::Packing::documents,
                                         config::Packing::none));

}  // namespace
}  // namespace trainer::data

// Brings windows of tokens to the device, one step ahead, and makes model input of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "data/sampler.h"
#include "data/step_batch.h"
#include "data/text/windows.h"

namespace trainer::data {

struct TokenFeedOptions {
  at::Device device = at::kCPU;
  int workers = 0;   // threads that fill host buffers; 0: inside next()
  int prefetch = 2;  // host buffers beyond the one in use
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  // one past the last step that will be asked for
};

// A batch's input and target are int64 [n, length], its weight float32 [n] of ones; documents and
// positions, int64 [n, length], are there where the windows are packed. StepBatch::weight() is the
// number of targets of the share that count. Tokens travel as int32 and are widened by micro().
class TokenFeed : public BatchFeed {
 public:
  // `windows` outlives the feed. On CUDA the host buffers are page-locked.
  TokenFeed(const Windows& windows, const Sampler& sampler, const TokenFeedOptions& options);
  ~TokenFeed() override;

  // On CUDA the following batch's copy, where its tokens are there already, is queued on a stream
  // of its own meanwhile. Never waits inside the CUDA driver.
  const StepBatch* next() override;
  void seek(std::int64_t step) override;
  FeedTimes take_times() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

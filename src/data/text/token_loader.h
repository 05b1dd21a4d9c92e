// Fills a ring of host buffers with one rank's share of each step's windows, ahead of training, on
// threads. No torch here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "data/loader.h"
#include "data/sampler.h"
#include "data/text/windows.h"

namespace trainer::data {

// A filled slot. Buffers keep their addresses for the loader's whole life, and lie one after
// another in one block, each with room for the slot's capacity: the same offsets in every slot.
struct HostTokens {
  std::int64_t step = 0;
  StepPlace place;
  std::int64_t size = 0;                         // samples
  std::int64_t targets = 0;                      // that count
  std::span<std::int32_t> input, target;         // [size, length]
  std::span<std::int32_t> documents, positions;  // [size, length]; empty unless packed
  std::span<std::byte> block;                    // all parts, for the whole capacity
};

struct TokenLoaderOptions {
  int workers = 0;   // threads; 0 fills a batch inside next()
  int prefetch = 2;  // slots beyond the one in use
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  // one past the last step that will be asked for
  Allocate allocate;           // empty: plain memory
};

class TokenLoader {
 public:
  // `windows` outlives the loader.
  TokenLoader(const Windows& windows, const Sampler& sampler, TokenLoaderOptions options);
  ~TokenLoader();  // stops and joins the threads
  TokenLoader(const TokenLoader&) = delete;

  const Windows& windows() const;
  int slots() const;              // of the ring: prefetch + 1, two at the least
  std::int64_t capacity() const;  // samples that a slot holds: the largest share of a step
  std::size_t slot_bytes() const;

  // The next step's batch, in step order; nullptr after last_step. Blocks until it is full. Valid
  // until `release`. Rethrows here what a worker threw for it. At most slots() batches may be held
  // unreleased.
  const HostTokens* next();
  // The same, but nullptr where it is not full yet, or no slot is free; never fills it here.
  const HostTokens* next_if_ready();
  // Gives the oldest slot back for filling.
  void release();
  // Drops what was made ahead and goes on from `step`.
  void seek(std::int64_t step);
  // `stages.read_ms` is the time of filling, over all threads.
  LoaderTimes take_times();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace trainer::data

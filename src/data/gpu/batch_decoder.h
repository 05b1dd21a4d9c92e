// The samples of a batch that are left to the GPU: decoded, cropped, resized, mirrored and coloured
// there, into the rows of the batch.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/loader.h"

namespace trainer::data {

class BatchDecoder {
 public:
  // nullptr, with the reason in `reason`, where this build or this machine cannot do it.
  static std::unique_ptr<BatchDecoder> create(const Loader& loader, c10::Device device,
                                              std::string& reason);
  ~BatchDecoder();
  BatchDecoder(const BatchDecoder&) = delete;

  // Makes the encoded rows of `batch` in `images` (device memory, u8 [size, height, width,
  // channels]) on `stream`, which is the current one, after `free`, which it makes the stream wait
  // for. Returns before the GPU is done; `batch` must stay until it is. Gives the rows that the
  // decoder refused.
  const std::vector<std::int64_t>& decode(const HostBatch& batch, std::uint8_t* images,
                                          c10::Event& free, const c10::Stream& stream);

 private:
  struct Impl;
  explicit BatchDecoder(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Waits without spinning, as the CUDA driver would.
void sleep_until_done(const c10::Event& event);

}  // namespace trainer::data

#include "memory/activation_checkpointing.h"

#include <utility>
#include <variant>

#include "memory/activation_hooks.h"
#include "memory/activation_offload.h"
#include "memory/activation_recompute.h"

namespace trainer::memory {
namespace {

using Counters = std::shared_ptr<ActivationCheckpointing::Counters>;
using Tensors = std::vector<at::Tensor>;

RunBlock make_runner(const config::KeepActivations&, const Tensors&, const Counters&) {
  return [](std::int64_t, const Block& block, const at::Tensor& input) { return block(input); };
}

RunBlock make_runner(const config::RecomputeBlocks& policy, const Tensors&,
                     const Counters& counters) {
  return recompute_blocks(policy.every, /*selective=*/false, counters);
}

RunBlock make_runner(const config::RecomputeSelective&, const Tensors&, const Counters& counters) {
  return recompute_blocks(/*every=*/1, /*selective=*/true, counters);
}

RunBlock make_runner(const config::OffloadActivations& policy, const Tensors& resident,
                     const Counters& counters) {
  std::vector<c10::Storage> storages;
  for (const at::Tensor& tensor : resident) storages.push_back(tensor.storage());
  return offload_blocks(policy.min_size, std::move(storages), counters);
}

}  // namespace

ActivationCheckpointing::ActivationCheckpointing(const config::ActivationCheckpointing& policy,
                                                 const Tensors& resident)
    : counters_(std::make_shared<Counters>()),
      runner_(std::visit([&](const auto& kind) { return make_runner(kind, resident, counters_); },
                         policy)) {
  if (!std::holds_alternative<config::KeepActivations>(policy)) install_hooks();
}

CheckpointingCounts ActivationCheckpointing::counts() const {
  return {counters_->recomputed_blocks, counters_->offloaded_bytes, counters_->restored_bytes,
          counters_->host_bytes};
}

}  // namespace trainer::memory

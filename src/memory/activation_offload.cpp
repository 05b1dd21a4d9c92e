#include "memory/activation_offload.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/set.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "memory/transfer.h"

// Note [Memory and streams of offloading]: what is copied out stays referenced until the second
// next block begins. There the compute stream waits for the copy, so that the memory is free for it
// in its own order, without record_stream, whose frees come when they come. It also bounds how far
// copies lag behind: where the bus is slower than the blocks, computation waits. The last two
// blocks' tensors are still there when the backward pass begins, and are used as they are.
//
// Copies back go to memory that the compute stream allocates; they begin when its work so far is
// done (the memory may have been in use until then), and it waits for them before the first use.
// They are queued when the block after is first asked for a tensor.

namespace trainer::memory {
namespace {

using Hooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;
using Counters = ActivationCheckpointing::Counters;

// What frames and tensors of one runner share.
struct Shared {
  Shared(std::int64_t min, std::vector<c10::Storage> resident_storages,
         std::shared_ptr<Counters> counts)
      : min_size(min),
        resident(std::move(resident_storages)),
        counters(std::move(counts)),
        pool(counters) {
    for (const c10::Storage& storage : resident) known.insert(storage.unsafeGetStorageImpl());
  }
  bool is_resident(const at::Tensor& tensor) const {
    return known.count(tensor.storage().unsafeGetStorageImpl()) > 0;
  }

  const std::int64_t min_size;
  const std::vector<c10::Storage> resident;
  std::unordered_set<const c10::StorageImpl*> known;  // those of `resident`
  const std::shared_ptr<Counters> counters;
  HostPool pool;
  std::recursive_mutex mutex;        // of frames and stored tensors; the pool has its own
  std::optional<Transfer> transfer;  // of the first block's device
};

// A storage that has been copied to the host. Owned by the hooks of the saved tensors in it.
class Stored {
 public:
  Stored(std::shared_ptr<Shared> shared, const at::Tensor& tensor);
  ~Stored();
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;

  // `tensor` lies in the storage, unchanged since it was copied.
  bool holds(const at::Tensor& tensor) const {
    return on_device_.has_value() && !restored_ && version_ == tensor._version() &&
           on_device_->unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl();
  }
  void stay_on_device() { stays_ = true; }
  // The compute stream has waited for the copy to the host.
  void let_go();
  // Queues the copy back, unless the storage is there.
  void fetch();
  // The compute stream has waited for the copy back.
  void arrived() { settled_ = settled_ || restored_; }
  const c10::Storage& storage() const { return *on_device_; }

 private:
  const std::shared_ptr<Shared> shared_;
  const std::uint32_t version_;
  at::Tensor host_;
  std::optional<c10::Storage> on_device_;
  bool stays_ = false;
  bool restored_ = false;  // on_device_ was made by fetch
  bool settled_ = false;   // no copy to or from on_device_ is under way
};

Stored::Stored(std::shared_ptr<Shared> shared, const at::Tensor& tensor)
    : shared_(std::move(shared)), version_(tensor._version()), on_device_(tensor.storage()) {
  const at::Tensor bytes = bytes_of(*on_device_, tensor.device());
  host_ = shared_->pool.take(bytes.numel(), tensor.is_cuda());
  shared_->transfer->copy(host_, bytes);
  shared_->counters->offloaded_bytes += bytes.numel();
}

Stored::~Stored() {
  if (on_device_ && !settled_) shared_->transfer->keep_until_done(*on_device_);
  if (host_.defined())
    shared_->pool.give_back(std::move(host_), !shared_->transfer->device().is_cpu());
}

void Stored::let_go() {
  if (restored_) return;
  settled_ = true;
  if (!stays_) on_device_.reset();
}

void Stored::fetch() {
  if (on_device_) return;
  const at::Device device = shared_->transfer->device();
  const at::Tensor bytes = at::empty(host_.sizes(), at::TensorOptions(device).dtype(at::kByte));
  on_device_ = bytes.storage();
  restored_ = true;
  settled_ = false;
  shared_->transfer->copy(bytes, host_);
  shared_->counters->restored_bytes += bytes.numel();
}

// What one block has stored in one forward pass. Owned by the hooks of its tensors.
class Frame {
 public:
  Frame(std::shared_ptr<Shared> shared, std::weak_ptr<Frame> previous)
      : shared_(std::move(shared)), previous_(std::move(previous)) {}

  // Forward.
  std::shared_ptr<Stored> store(const at::Tensor& tensor);
  void end() { copied_ = shared_->transfer->mark(); }
  void let_go();
  std::shared_ptr<Frame> previous() const { return previous_.lock(); }

  // Backward: everything of this block is there for the compute stream, and what the block before
  // has is on its way.
  void restore();
  Shared& shared() { return *shared_; }

 private:
  std::shared_ptr<Stored> find(const at::Tensor& tensor) const;
  void fetch();

  const std::shared_ptr<Shared> shared_;
  const std::weak_ptr<Frame> previous_;
  std::vector<std::weak_ptr<Stored>> stored_;
  std::optional<c10::Event> copied_, fetched_;
  bool is_fetched_ = false, is_restored_ = false;
};

std::shared_ptr<Stored> Frame::find(const at::Tensor& tensor) const {
  for (const std::weak_ptr<Stored>& weak : stored_) {
    std::shared_ptr<Stored> stored = weak.lock();
    if (stored != nullptr && stored->holds(tensor)) return stored;
  }
  return nullptr;
}

// A storage is copied once. One that the block before has saved too and no gradient flows through
// is a constant of the model, such as a mask: it stays.
std::shared_ptr<Stored> Frame::store(const at::Tensor& tensor) {
  std::shared_ptr<Stored> stored = find(tensor);
  if (stored != nullptr) return stored;
  if (const std::shared_ptr<Frame> before = previous()) stored = before->find(tensor);
  if (stored != nullptr && !tensor.requires_grad()) stored->stay_on_device();
  if (stored == nullptr) stored = std::make_shared<Stored>(shared_, tensor);
  stored_.push_back(stored);
  return stored;
}

void Frame::let_go() {
  shared_->transfer->wait(copied_);
  for (const std::weak_ptr<Stored>& weak : stored_)
    if (const std::shared_ptr<Stored> stored = weak.lock()) stored->let_go();
}

void Frame::fetch() {
  if (std::exchange(is_fetched_, true)) return;
  for (const std::weak_ptr<Stored>& weak : stored_)
    if (const std::shared_ptr<Stored> stored = weak.lock()) stored->fetch();
  fetched_ = shared_->transfer->mark();
}

void Frame::restore() {
  if (std::exchange(is_restored_, true)) return;
  fetch();
  if (const std::shared_ptr<Frame> before = previous()) before->fetch();
  shared_->transfer->wait(fetched_);
  for (const std::weak_ptr<Stored>& weak : stored_)
    if (const std::shared_ptr<Stored> stored = weak.lock()) stored->arrived();
}

class OffloadHook final : public Hook {
 public:
  OffloadHook(std::shared_ptr<Frame> frame, class OffloadRun& run)
      : frame_(std::move(frame)), run_(&run) {}
  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;

 private:
  std::shared_ptr<Frame> frame_;
  OffloadRun* run_;  // until packed
  at::Tensor kept_;
  std::shared_ptr<Stored> stored_;
  // Of the saved tensor in its storage.
  std::vector<std::int64_t> sizes_, strides_;
  std::int64_t offset_ = 0;
  at::TensorOptions options_;
};

class OffloadRun final : public HookedRun {
 public:
  explicit OffloadRun(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  bool again() const override { return false; }
  at::Tensor keep(at::TensorList, const recompute::Compute& compute) override { return compute(); }
  Hooks hooks() override { return std::make_unique<OffloadHook>(frame_, *this); }
  bool offloads(const at::Tensor& tensor) const;

 private:
  std::shared_ptr<Frame> frame_;
};

// Made of one parameter alone by a cast or as a view: under autocast, the weight of each layer.
// Autocast's cache holds it for the rest of the forward pass anyway.
bool is_form_of_a_parameter(const at::Tensor& tensor) {
  constexpr std::array<std::string_view, 5> kForms{"ToCopyBackward0", "TBackward0", "ViewBackward0",
                                                   "TransposeBackward0", "AliasBackward0"};
  for (auto node = tensor.grad_fn(); node != nullptr; node = node->next_edge(0).function) {
    const std::string name = node->name();
    if (name == "torch::autograd::AccumulateGrad") return true;
    if (std::find(kForms.begin(), kForms.end(), name) == kForms.end()) return false;
  }
  return false;
}

bool OffloadRun::offloads(const at::Tensor& tensor) const {
  const Shared& shared = frame_->shared();
  return tensor.layout() == at::kStrided && tensor.has_storage() && !tensor.is_quantized() &&
         !tensor.is_conj() && !tensor.is_neg() && tensor.device() == shared.transfer->device() &&
         static_cast<std::int64_t>(tensor.nbytes()) >= shared.min_size && !is_parameter(tensor) &&
         !shared.is_resident(tensor) && !is_form_of_a_parameter(tensor);
}

void OffloadHook::call_pack_hook(const at::Tensor& tensor) {
  const std::lock_guard lock(frame_->shared().mutex);
  const bool offloads = std::exchange(run_, nullptr)->offloads(tensor);
  if (!offloads) {
    kept_ = is_parameter(tensor) ? tensor : tensor.detach();
    return;
  }
  stored_ = frame_->store(tensor);
  sizes_ = tensor.sizes().vec();
  strides_ = tensor.strides().vec();
  offset_ = tensor.storage_offset();
  options_ = tensor.options();
}

at::Tensor OffloadHook::call_unpack_hook() {
  if (stored_ == nullptr) return kept_;
  const std::lock_guard lock(frame_->shared().mutex);
  frame_->restore();
  const c10::AutoGradMode no_grad(false);
  return at::empty({0}, options_).set_(stored_->storage(), offset_, sizes_, strides_);
}

// The runner's own state.
class Offload {
 public:
  explicit Offload(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  at::Tensor run(const Block& block, const at::Tensor& input) {
    if (!c10::GradMode::is_enabled() || recompute::current != nullptr) return block(input);
    const auto frame = begin(input.device());
    OffloadRun run(frame);
    const Hooked hooked(run);
    at::Tensor output = block(input);
    const std::lock_guard lock(shared_->mutex);
    frame->end();
    return output;
  }

 private:
  std::shared_ptr<Frame> begin(at::Device device) {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->transfer) shared_->transfer.emplace(device);
    if (const std::shared_ptr<Frame> before = last_.lock())
      if (const std::shared_ptr<Frame> second = before->previous()) second->let_go();
    auto frame = std::make_shared<Frame>(shared_, last_);
    last_ = frame;
    return frame;
  }

  const std::shared_ptr<Shared> shared_;
  std::weak_ptr<Frame> last_;
};

}  // namespace

RunBlock offload_blocks(std::int64_t min_size, std::vector<c10::Storage> resident,
                        std::shared_ptr<Counters> counters) {
  auto policy = std::make_shared<Offload>(
      std::make_shared<Shared>(min_size, std::move(resident), std::move(counters)));
  return [policy](std::int64_t, const Block& block, const at::Tensor& input) {
    return policy->run(block, input);
  };
}

}  // namespace trainer::memory

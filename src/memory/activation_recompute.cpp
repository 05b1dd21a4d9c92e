#include "memory/activation_recompute.h"

#include <ATen/ops/alias.h>
#include <ATen/ops/as_strided.h>
#include <c10/core/GradMode.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "memory/forward_state.h"

// Note [Two runs, one order]: a block saves the same tensors in the same order whenever it runs.
// The first run drops them and numbers them ("slots"); the first of them that the backward pass
// asks for makes the block run again, and that run's n-th saved tensor is slot n's value. Gradients
// flow through the first run's graph alone; the second's is dropped with all its nodes.
//
// A slot knows how many saved tensors of the first graph still want it. The second run keeps the
// values of wanted slots only, ends as soon as it has them all (at the latest before the block's
// last matrix product, which saves its operands before it computes), and a value goes when nothing
// wants it any more.

namespace trainer::memory {
namespace {

using Hooks = std::unique_ptr<torch::autograd::SavedVariableHooks>;
using Counters = ActivationCheckpointing::Counters;
using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
constexpr std::size_t kNoSlot = static_cast<std::size_t>(-1);

// Thrown by the second run to leave the block. Never seen outside.
struct HasAll {};

[[noreturn]] void saves_differently(const std::string& what) {
  throw Error(Exit::internal, "activation checkpointing: run again, a block " + what +
                                  "; its output must depend on its input, parameters and torch's "
                                  "default generators alone");
}

struct Geometry {
  std::vector<std::int64_t> sizes, strides;
  std::int64_t offset = 0;
  explicit Geometry(const at::Tensor& t)
      : sizes(t.sizes().vec()), strides(t.strides().vec()), offset(t.storage_offset()) {}
  bool operator==(const Geometry&) const = default;
};

// The second run of autograd must see what the first saw: whether a tensor needs a gradient, and
// whether it is a leaf (see is_parameter).
at::Tensor stand_in(const at::Tensor& detached, bool requires_grad, bool leaf) {
  if (!requires_grad) return detached.detach();
  const at::Tensor fresh = detached.detach().requires_grad_();
  return leaf ? fresh : at::alias(fresh);
}

struct Slot {
  std::int64_t users = 0;
  std::vector<std::int64_t> sizes;
  at::ScalarType type;
  at::Tensor value;  // from the second run on

  explicit Slot(const at::Tensor& t) : sizes(t.sizes().vec()), type(t.scalar_type()) {}
};

// What one call of recompute::keep has kept.
struct Region {
  struct Input {
    std::size_t slot = kNoSlot;  // none where no saved tensor was a view of it
    std::optional<Geometry> geometry;
  };
  std::vector<Input> inputs;
  at::Tensor output;  // detached
  bool requires_grad = false;
  std::optional<GeneratorState> after;
};

// A group of blocks in one forward pass. Owned by the hooks of the tensors that its blocks save.
class Frame : public std::enable_shared_from_this<Frame> {
 public:
  Frame(const at::Tensor& input, bool selective, std::shared_ptr<Counters> counters)
      : input_(input.detach()),
        input_requires_grad_(input.requires_grad()),
        input_is_leaf_(input.is_leaf()),
        selective_(selective),
        counters_(std::move(counters)),
        last_output_(input.getIntrusivePtr()) {}

  // `input` is what the last block gave, and is to be what the next one gets.
  bool goes_on_with(const at::Tensor& input) const {
    return last_output_._unsafe_get_target() == input.unsafeGetTensorImpl();
  }
  std::int64_t size() const { return static_cast<std::int64_t>(parts_.size()); }

  at::Tensor run(const Block& block, const at::Tensor& input);

  // For hooks, on any thread. One user each: get as often as wanted, then release.
  at::Tensor get(std::size_t slot);
  void release(std::size_t slot);

 private:
  friend class FirstRun;
  friend class SecondRun;
  struct Part {
    Block block;
    ForwardState state;
  };

  std::size_t add_slot(const at::Tensor& tensor);
  void recompute();

  at::Tensor input_;  // detached
  const bool input_requires_grad_, input_is_leaf_;
  const bool selective_;
  const std::shared_ptr<Counters> counters_;
  // Weak: the graph of an output owns the hooks, and they this.
  WeakTensor last_output_;
  std::vector<Part> parts_;

  std::mutex mutex_;  // of what follows
  bool recomputed_ = false;
  std::vector<Slot> slots_;
  std::vector<std::size_t> order_;  // slots of the tensors that are saved outside of regions
  std::vector<Region> regions_;
};

class FirstRun final : public HookedRun {
 public:
  explicit FirstRun(Frame& frame) : frame_(frame) {}
  bool again() const override { return false; }
  at::Tensor keep(at::TensorList inputs, const recompute::Compute& compute) override;
  Hooks hooks() override;

  // What becomes of a saved tensor: it is kept, or its slot is, of which it may be a view.
  struct Packed {
    at::Tensor kept;
    std::size_t slot = kNoSlot;
    std::optional<Geometry> view;
  };
  Packed pack(const at::Tensor& tensor);

 private:
  Packed pack_in_region(const at::Tensor& tensor);

  Frame& frame_;
  at::TensorList region_inputs_;
  Region* region_ = nullptr;  // while compute() of recompute::keep runs
};

class FirstRunHook final : public Hook {
 public:
  FirstRunHook(std::shared_ptr<Frame> frame, FirstRun& run)
      : frame_(std::move(frame)), run_(&run) {}
  ~FirstRunHook() override {
    if (packed_.slot != kNoSlot) frame_->release(packed_.slot);
  }
  void call_pack_hook(const at::Tensor& tensor) override {
    packed_ = run_->pack(tensor);
    run_ = nullptr;
  }
  at::Tensor call_unpack_hook() override {
    if (packed_.slot == kNoSlot) return packed_.kept;
    const at::Tensor value = frame_->get(packed_.slot);
    if (!packed_.view) return value;
    return at::as_strided(value, packed_.view->sizes, packed_.view->strides, packed_.view->offset);
  }

 private:
  std::shared_ptr<Frame> frame_;
  FirstRun* run_;  // until packed
  FirstRun::Packed packed_;
};

Hooks FirstRun::hooks() { return std::make_unique<FirstRunHook>(frame_.shared_from_this(), *this); }

FirstRun::Packed FirstRun::pack(const at::Tensor& tensor) {
  if (is_parameter(tensor)) return {tensor, kNoSlot, {}};
  const std::lock_guard lock(frame_.mutex_);
  if (region_ != nullptr) return pack_in_region(tensor);
  const std::size_t slot = frame_.add_slot(tensor);
  frame_.order_.push_back(slot);
  return {{}, slot, {}};
}

// Inside a region, what lies in the storage of an input is made again with that input.
FirstRun::Packed FirstRun::pack_in_region(const at::Tensor& tensor) {
  for (std::size_t i = 0; tensor.has_storage() && i < region_inputs_.size(); ++i) {
    const at::Tensor& input = region_inputs_[i];
    if (!input.is_alias_of(tensor) || input.scalar_type() != tensor.scalar_type()) continue;
    Region::Input& known = region_->inputs[i];
    if (known.slot == kNoSlot) {
      known.slot = frame_.add_slot(input);
      known.geometry = Geometry(input);
    } else {
      ++frame_.slots_[known.slot].users;
    }
    return {{}, known.slot, Geometry(tensor)};
  }
  return {tensor.detach(), kNoSlot, {}};
}

at::Tensor FirstRun::keep(at::TensorList inputs, const recompute::Compute& compute) {
  if (!frame_.selective_ || region_ != nullptr) return compute();
  Region region;
  region.inputs.resize(inputs.size());
  struct Inside {
    FirstRun& run;
    ~Inside() { run.region_ = nullptr; }
  };
  region_ = &region;
  region_inputs_ = inputs;
  at::Tensor output;
  {
    const Inside inside{*this};
    output = compute();
  }
  region.output = output.detach();
  region.requires_grad = output.requires_grad();
  region.after.emplace(output.device());
  const std::lock_guard lock(frame_.mutex_);
  frame_.regions_.push_back(std::move(region));
  return output;
}

// Runs with the frame locked.
class SecondRun final : public HookedRun {
 public:
  explicit SecondRun(Frame& frame) : frame_(frame) {
    for (const Slot& slot : frame.slots_) wanted_ += slot.users > 0;
  }
  bool again() const override { return true; }
  at::Tensor keep(at::TensorList inputs, const recompute::Compute& compute) override;
  Hooks hooks() override;
  void saved(const at::Tensor& tensor);
  bool has_all() const { return wanted_ == 0; }

 private:
  void fill(std::size_t slot, const at::Tensor& tensor);

  Frame& frame_;
  std::int64_t wanted_ = 0;  // slots that are wanted and have no value yet
  std::size_t next_saved_ = 0, next_region_ = 0;
};

class SecondRunHook final : public Hook {
 public:
  explicit SecondRunHook(SecondRun& run) : run_(run) {}
  void call_pack_hook(const at::Tensor& tensor) override { run_.saved(tensor); }
  at::Tensor call_unpack_hook() override {
    throw Error(Exit::internal,
                "activation checkpointing: a block ran a backward pass of its own; take it out of "
                "the block");
  }

 private:
  SecondRun& run_;
};

Hooks SecondRun::hooks() { return std::make_unique<SecondRunHook>(*this); }

void SecondRun::saved(const at::Tensor& tensor) {
  if (is_parameter(tensor)) return;
  if (next_saved_ == frame_.order_.size()) saves_differently("saves more tensors than before");
  fill(frame_.order_[next_saved_++], tensor);
}

void SecondRun::fill(std::size_t number, const at::Tensor& tensor) {
  Slot& slot = frame_.slots_[number];
  if (tensor.sizes() != at::IntArrayRef(slot.sizes) || tensor.scalar_type() != slot.type)
    saves_differently("saves a tensor of another shape or type than before");
  if (slot.users == 0) return;
  slot.value = tensor.detach();
  if (--wanted_ == 0) throw HasAll();
}

at::Tensor SecondRun::keep(at::TensorList inputs, const recompute::Compute& compute) {
  if (!frame_.selective_) return compute();
  if (next_region_ == frame_.regions_.size()) saves_differently("keeps more than before");
  const Region& region = frame_.regions_[next_region_++];
  if (region.inputs.size() != inputs.size()) saves_differently("keeps another function");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Region::Input& known = region.inputs[i];
    if (known.slot == kNoSlot) continue;
    if (Geometry(inputs[i]) != *known.geometry)
      saves_differently("gives a kept function an input of another layout");
    fill(known.slot, inputs[i]);
  }
  region.after->restore();
  return stand_in(region.output, region.requires_grad, /*leaf=*/false);
}

std::size_t Frame::add_slot(const at::Tensor& tensor) {
  slots_.emplace_back(tensor);
  slots_.back().users = 1;
  return slots_.size() - 1;
}

at::Tensor Frame::run(const Block& block, const at::Tensor& input) {
  parts_.push_back({block, ForwardState(input.device())});
  FirstRun first(*this);
  const Hooked hooked(first);
  at::Tensor output = block(input);
  last_output_ = WeakTensor(output.getIntrusivePtr());
  return output;
}

at::Tensor Frame::get(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  if (!recomputed_) recompute();
  if (!slots_[slot].value.defined()) saves_differently("does not save all the tensors of before");
  return slots_[slot].value;
}

void Frame::release(std::size_t slot) {
  const std::lock_guard lock(mutex_);
  if (--slots_[slot].users == 0) slots_[slot].value.reset();
}

void Frame::recompute() {
  SecondRun second(*this);
  try {
    const Hooked hooked(second);
    at::Tensor value;
    for (const Part& part : parts_) {
      ++counters_->recomputed_blocks;
      const InForwardState state(part.state, input_.device());
      if (!value.defined()) value = stand_in(input_, input_requires_grad_, input_is_leaf_);
      value = part.block(value);
    }
  } catch (const HasAll&) {
  }
  if (!second.has_all()) saves_differently("does not save all the tensors of before");
  recomputed_ = true;
  input_.reset();
  parts_.clear();
  regions_.clear();
}

// The runner's own state.
class Recompute {
 public:
  Recompute(std::int64_t every, bool selective, std::shared_ptr<Counters> counters)
      : every_(every), selective_(selective), counters_(std::move(counters)) {}

  at::Tensor run(std::int64_t index, const Block& block, const at::Tensor& input) {
    if (!c10::GradMode::is_enabled() || recompute::current != nullptr) return block(input);
    std::shared_ptr<Frame> frame = group_.lock();
    const bool goes_on = frame != nullptr && index % every_ != 0 && frame->size() < every_ &&
                         frame->goes_on_with(input);
    if (!goes_on) frame = std::make_shared<Frame>(input, selective_, counters_);
    group_ = frame;
    return frame->run(block, input);
  }

 private:
  const std::int64_t every_;
  const bool selective_;
  const std::shared_ptr<Counters> counters_;
  std::weak_ptr<Frame> group_;  // the last block's; gone where it saved nothing or was abandoned
};

}  // namespace

RunBlock recompute_blocks(std::int64_t every, bool selective, std::shared_ptr<Counters> counters) {
  auto policy = std::make_shared<Recompute>(every, selective, std::move(counters));
  return [policy](std::int64_t index, const Block& block, const at::Tensor& input) {
    return policy->run(index, block, input);
  };
}

}  // namespace trainer::memory

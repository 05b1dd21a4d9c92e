#include "engine/step_results.h"

#include <ATen/ops/empty.h>

#include <chrono>
#include <utility>
#include <vector>

#ifdef TRAINER_CUDA
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace trainer::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t kValues = sizeof(StepValues) / sizeof(float);

// A point on the device's time line: a CUDA event, or the host's clock on a CPU, where work is done
// when the call returns.
class Mark {
 public:
  explicit Mark(bool cuda) {
#ifdef TRAINER_CUDA
    if (cuda) event_.emplace(cudaEventDefault);
#else
    (void)cuda;
#endif
  }
  void record() {
#ifdef TRAINER_CUDA
    if (event_) {
      event_->record();
      return;
    }
#endif
    time_ = Clock::now();
  }
  bool reached() const {
#ifdef TRAINER_CUDA
    if (event_) return event_->query();
#endif
    return true;
  }
  void wait() const {
#ifdef TRAINER_CUDA
    if (event_) event_->synchronize();
#endif
  }
  double milliseconds_since(const Mark& earlier) const {
#ifdef TRAINER_CUDA
    if (event_) return static_cast<double>(earlier.event_->elapsed_time(*event_));
#endif
    return std::chrono::duration<double, std::milli>(time_ - earlier.time_).count();
  }

 private:
#ifdef TRAINER_CUDA
  std::optional<c10::cuda::CUDAEvent> event_;
#endif
  Clock::time_point time_;
};

}  // namespace

struct StepResults::Impl {
  struct Slot {
    std::int64_t step = 0;
    at::Tensor row;               // float32 [kValues] in host memory
    std::unique_ptr<Mark> begin;  // null: the end of the step before
    std::unique_ptr<Mark> end;
  };
  bool cuda = false;
  std::vector<Slot> slots;
  std::int64_t pushed = 0;
  std::int64_t popped = 0;
  std::unique_ptr<Mark> resumed;  // set by resume_clock, taken by the next push

  Slot& slot(std::int64_t i) { return slots[static_cast<std::size_t>(i) % slots.size()]; }
};

StepResults::StepResults(at::Device device, int depth) : impl_(std::make_unique<Impl>()) {
  impl_->cuda = device.is_cuda();
  // One slot more than the depth: the end of the last popped step begins the next one's time.
  impl_->slots.resize(static_cast<std::size_t>(depth) + 1);
  for (Impl::Slot& slot : impl_->slots) {
    slot.row =
        at::empty({kValues}, at::TensorOptions().dtype(at::kFloat).pinned_memory(impl_->cuda));
    slot.end = std::make_unique<Mark>(impl_->cuda);
  }
  resume_clock();
}

StepResults::~StepResults() = default;

bool StepResults::full() const {
  return impl_->pushed - impl_->popped + 1 >= static_cast<std::int64_t>(impl_->slots.size());
}

void StepResults::resume_clock() {
  if (!impl_->resumed) impl_->resumed = std::make_unique<Mark>(impl_->cuda);
  impl_->resumed->record();
}

void StepResults::push(std::int64_t step, const at::Tensor& row) {
  Impl::Slot& slot = impl_->slot(impl_->pushed);
  slot.step = step;
  slot.row.copy_(row, /*non_blocking=*/true);
  slot.begin = std::move(impl_->resumed);
  slot.end->record();
  ++impl_->pushed;
}

std::optional<FinishedStep> StepResults::pop(bool wait) {
  if (impl_->popped == impl_->pushed) return std::nullopt;
  Impl::Slot& slot = impl_->slot(impl_->popped);
  if (!slot.end->reached()) {
    if (!wait) return std::nullopt;
    slot.end->wait();
  }
  FinishedStep finished;
  finished.step = slot.step;
  const float* row = slot.row.const_data_ptr<float>();
  finished.values = {row[0], row[1], row[2], row[3], row[4], row[5]};
  const Mark& begin = slot.begin ? *slot.begin : *impl_->slot(impl_->popped - 1).end;
  finished.milliseconds = slot.end->milliseconds_since(begin);
  ++impl_->popped;
  return finished;
}

}  // namespace trainer::engine

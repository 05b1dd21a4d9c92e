#include "data/sources/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/cpu.h"

namespace trainer::data {
namespace {

// The exception of the failed task with the smallest index. Tasks start in the order of their
// indices, so every one before a failed one has started and can still take its place.
class FirstFailure {
 public:
  void add(std::size_t index, std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (!exception_ || index < index_) {
      index_ = index;
      exception_ = std::move(exception);
    }
    failed_ = true;
  }
  bool failed() const { return failed_; }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> failed_ = false;
  std::size_t index_ = 0;
  std::exception_ptr exception_;
};

}  // namespace

void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& task) {
  FirstFailure failure;
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    while (!failure.failed()) {
      const std::size_t index = next++;
      if (index >= count) return;
      try {
        task(index);
      } catch (...) {
        failure.add(index, std::current_exception());
      }
    }
  };
  const std::size_t threads = std::min({count, std::size_t{16}, std::size_t(cpu_limit())});
  {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
    work();
  }
  failure.rethrow();
}

}  // namespace trainer::data

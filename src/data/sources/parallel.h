// Work on many files or folders at once.
#pragma once

#include <cstddef>
#include <functional>

namespace trainer::data {

// Runs task(0) ... task(count - 1) on as many threads as there are CPUs for, 16 at most, and
// returns when all have ended. Where tasks throw, no more are started, and the exception of the one
// with the smallest index is thrown on: which one it is does not depend on the threads.
void for_each_in_parallel(std::size_t count, const std::function<void(std::size_t)>& task);

}  // namespace trainer::data

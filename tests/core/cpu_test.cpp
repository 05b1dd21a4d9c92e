#include "core/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace trainer {
namespace {

// The first CPU that this process may use, alone.
cpu_set_t one_cpu() {
  cpu_set_t all;
  CPU_ZERO(&all);
  sched_getaffinity(0, sizeof all, &all);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  return one;
}

TEST(CpuLimit, IsAtLeastOneAndNoMoreThanTheMachineHas) {
  EXPECT_GE(cpu_limit(), 1);
  EXPECT_LE(cpu_limit(), static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(CpuLimit, FollowsTheAffinityMask) {
  std::thread([] {
    const cpu_set_t one = one_cpu();
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(cpu_limit(), 1);
  }).join();
}

}  // namespace
}  // namespace trainer

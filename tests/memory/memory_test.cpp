#include "memory/memory.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <c10/core/AllocatorConfig.h>
#include <gmock/gmock.h>

#include <cstring>

#include "core/error.h"

namespace trainer::memory {
namespace {

using ::testing::HasSubstr;

// Sets or clears variables for one test.
class Memory : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("PYTORCH_ALLOC_CONF");
    ::unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  }
  void TearDown() override { SetUp(); }
};

bool expandable() {
  return c10::CachingAllocator::AcceleratorAllocatorConfig::use_expandable_segments();
}

TEST_F(Memory, ConfigureChoosesTheAllocator) {
  configure({config::Allocator::standard});
  EXPECT_FALSE(expandable());
  configure({config::Allocator::expandable});
  EXPECT_TRUE(expandable());
  configure({config::Allocator::standard});
  EXPECT_FALSE(expandable());
}

TEST_F(Memory, ConfigureLeavesTheUsersChoiceAlone) {
  configure({config::Allocator::standard});
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    ::setenv(name, "max_split_size_mb:512", 1);
    configure({config::Allocator::expandable});
    EXPECT_FALSE(expandable()) << name;
    ::unsetenv(name);
  }
}

TEST_F(Memory, PlainBuffersAreAlignedAndWritable) {
  for (const std::size_t bytes : {0, 1, 63, 64, 1000}) {
    const HostBuffer buffer = allocate_host(bytes, false);
    ASSERT_NE(buffer.data, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data) % 64, 0U);
    std::memset(buffer.data, 7, bytes);
  }
}

TEST_F(Memory, TooLargeABufferIsOutOfMemory) {
  try {
    allocate_host(std::size_t{1} << 60, false);
    FAIL() << "an exbibyte was allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("of host memory; make data.loader.prefetch"));
  }
}

TEST_F(Memory, StatisticsWithoutUseAreZero) {
  if (at::hasCUDA()) GTEST_SKIP() << "there is a CUDA device";
  EXPECT_EQ(statistics(0).allocated, 0);
  reset_peak(0);
  EXPECT_EQ(statistics(0).peak, 0);
}

TEST(GpuMemory, StatisticsFollowAllocations) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  constexpr std::int64_t kBytes = 64 << 20;
  const at::Tensor kept = at::empty({kBytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  const Statistics before = statistics(0);
  EXPECT_GE(before.allocated, kBytes);
  at::Tensor more = at::empty({kBytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte));
  more.reset();
  const Statistics after = statistics(0);
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_GE(after.peak, before.allocated + kBytes);
  EXPECT_GE(after.reserved, after.peak);
  reset_peak(0);
  EXPECT_EQ(statistics(0).peak, before.allocated);
}

TEST(GpuMemory, PinnedBuffersArePinned) {
  if (!at::hasCUDA()) GTEST_SKIP() << "no CUDA device";
  const HostBuffer buffer = allocate_host(1000, true);
  EXPECT_TRUE(at::globalContext().isPinnedPtr(buffer.data, at::kCUDA));
  const HostBuffer plain = allocate_host(1000, false);
  EXPECT_FALSE(at::globalContext().isPinnedPtr(plain.data, at::kCUDA));
}

}  // namespace
}  // namespace trainer::memory

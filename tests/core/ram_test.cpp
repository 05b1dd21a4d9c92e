#include "core/ram.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace trainer {
namespace {

TEST(RamLimit, IsWithinWhatTheMachineHas) {
  const std::int64_t installed = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  EXPECT_GT(ram_limit(), 0);
  EXPECT_LE(ram_limit(), installed);
}

}  // namespace
}  // namespace trainer

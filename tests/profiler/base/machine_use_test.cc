#include "profiler/base/machine_use.h"

#include <gtest/gtest.h>

namespace mptune {
namespace {

constexpr const char* kText =
    "cpu  100 20 30 400 5 6 7 8 0 0\n"
    "cpu0 60 10 20 200 2 3 4 5 0 0\n"
    "cpu1 40 10 10 200 3 3 3 3 0 0\n"
    "cpu12 1 1 1 1 1 1 1 1 0 0\n"
    "intr 12345 0 0\n";

TEST(MachineUse, CountsTheCoresThatAreAskedFor) {
  const auto one = use_in(kText, {1}, 100);
  ASSERT_TRUE(one);
  EXPECT_DOUBLE_EQ(one->busy_s, 0.66);  // waiting for a disk is no work
  EXPECT_DOUBLE_EQ(one->stolen_s, 0.03);
  EXPECT_DOUBLE_EQ(use_in(kText, {0, 1}, 100)->busy_s, 0.97 + 0.66);
}

TEST(MachineUse, IsUnknownForCoresWithoutARow) {
  EXPECT_FALSE(use_in(kText, {2}, 100));
  EXPECT_FALSE(use_in("", {0}, 100));
  EXPECT_FALSE(use_in("cpu0 60 10\n", {0}, 100));
  EXPECT_FALSE(machine_use({1 << 20}));
}

TEST(MachineUse, OfThisProcessGrowsWithItsWork) {
  const auto before = machine_use({0});
  if (!before) GTEST_SKIP() << "this kernel does not tell how busy its cores are";
  EXPECT_GT(clock_probe_s(), 0);
  const auto now = machine_use({0});
  ASSERT_TRUE(now);
  EXPECT_GT(now->own_s, before->own_s);
  EXPECT_GE(now->busy_s, before->busy_s);
  EXPECT_GT(now->wall_s, before->wall_s);
}

}  // namespace
}  // namespace mptune

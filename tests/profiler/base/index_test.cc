#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace mptune::profiler {
namespace {

TEST(Index, KeepsEveryValueThatIsNotNegative) {
  static_assert(as_index(3) == 3);
  EXPECT_EQ(as_index(0), 0U);
  EXPECT_EQ(as_index(std::numeric_limits<std::int64_t>::max()), 9223372036854775807ULL);
  EXPECT_EQ(as_index(std::numeric_limits<std::uint64_t>::max()), std::numeric_limits<std::size_t>::max());
}

#ifndef NDEBUG
TEST(IndexDeathTest, RefusesNegativeValues) {
  EXPECT_DEATH((void)as_index(-1), "value >= 0");
}
#endif

}  // namespace
}  // namespace mptune::profiler

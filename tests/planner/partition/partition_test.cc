#include "mptune/planner/partition/partition.h"

#include <gmock/gmock.h>

#include "mptune/profiler/trace/error.h"
#include "mptune/tests/planner/partition/problems.h"

namespace mptune {
namespace {

using test::cuts_of;
using test::make_profile;
using test::ones;
using test::straight;

TEST(Partition, SplitsEqualLayersEqually) {
  const CostModel cost(make_profile({.layers = 8, .devices = 4, .bytes_per_second = 1e9}));
  const PartitionResult result = partition(straight(4, ones(8)), cost);
  ASSERT_EQ(result.best.size(), 1U);
  EXPECT_THAT(cuts_of(result.best.front().plan), testing::ElementsAre(2, 4, 6));
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.gap(), 0);
  EXPECT_EQ(result.lower_bound_ns, result.best.front().step_ns);
}

TEST(Partition, RefusesFamiliesThatAreNone) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  EXPECT_THROW(static_cast<void>(partition(straight(0, ones(2)), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(2, {}), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(2, {3, 1}), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(3, ones(2)), cost)), Error);
  EXPECT_THROW(static_cast<void>(partition(straight(2, ones(2), "2f2b"), cost)), Error);
  PartitionProblem problem = straight(2, ones(2));
  problem.memory_bytes = {1000};
  EXPECT_THROW(static_cast<void>(partition(problem, cost)), Error);
  problem = straight(2, ones(2));
  problem.stages[1] = {7};
  EXPECT_THROW(static_cast<void>(partition(problem, cost)), Error);
  problem.stages[1] = {};
  EXPECT_THROW(static_cast<void>(partition(problem, cost)), Error);
}

}  // namespace
}  // namespace mptune

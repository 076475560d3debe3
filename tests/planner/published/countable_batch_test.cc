#include <gtest/gtest.h>

#include <cstdint>

#include "planner/partition/partition.h"
#include "planner/published/closed_form.h"
#include "planner/published/profile_placement.h"
#include "planner/search/search.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

TEST(CountableBatch, IsAskedForByAllThatSearch) {
  Profile profile = testing::make_profile({.layers = 6, .devices = 2});
  profile.edges[0].bytes_per_sample = std::int64_t{1} << 42;
  const CostModel cost(profile);
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1"};
  space.batch = 1 << 20;
  EXPECT_THROW((void)search_plans(space, cost), Error);
  const PartitionProblem problem{.devices = space.devices,
                                 .stages = {{0}, {1}},
                                 .memory_bytes = {},
                                 .microbatch_sizes = {1 << 19, 1 << 19},
                                 .schedule = "1f1b",
                                 .recomputed = {},
                                 .stop = {}};
  EXPECT_THROW((void)partition(problem, cost), Error);
  EXPECT_THROW((void)closed_form_partition(problem, cost), Error);
  EXPECT_THROW((void)placement_graph(cost, {0, 1}, 1 << 20, 0), Error);
}

}  // namespace
}  // namespace mptune::planner

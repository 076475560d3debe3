#include <gtest/gtest.h>

#include <cstdint>

#include "mptune/planner/partition/partition.h"
#include "mptune/planner/published/closed_form.h"
#include "mptune/planner/published/profile_placement.h"
#include "mptune/planner/search/search.h"
#include "mptune/profiler/base/error.h"
#include "mptune/tests/planner/profiles.h"

namespace mptune {
namespace {

TEST(CountableBatch, IsAskedForByAllThatSearch) {
  Profile profile = test::make_profile({.layers = 6, .devices = 2});
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
}  // namespace mptune

#include "planner/published/objective.h"

#include <gtest/gtest.h>

namespace mptune::planner {
namespace {

// Three nodes in a row on two devices: 3 + 1 against 2, or 3 against 1 + 2; a cut costs 1 on both sides.
TEST(Objective, OfTheLargestLoadReportsTheSplit) {
  profiler::PlacementGraph graph;
  graph.devices = 2;
  graph.memory_bytes = 100;
  for (const std::int64_t seconds : {3, 1, 2}) {
    profiler::PlacementNode node;
    node.device_ns = seconds * 1'000'000'000;
    node.bytes = 10;
    graph.nodes.push_back(node);
  }
  graph.tensors = {{0, {1}, 1'000'000'000}, {1, {2}, 1'000'000'000}};
  const MaxLoadObjective objective(graph);
  const ObjectiveResult found = objective.minimize();
  EXPECT_EQ(objective.name(), "max-load");
  EXPECT_EQ(std::get<LoadPartition>(found.best), least_max_load(graph));
  EXPECT_EQ(found.value_s, 4);
  EXPECT_EQ(found.lower_bound_s, 4);
  EXPECT_EQ(found.gap, 0);
  EXPECT_EQ(found.peak_bytes, (std::vector<std::int64_t>{10, 20}));
}

}  // namespace
}  // namespace mptune::planner

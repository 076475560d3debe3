#include "planner/published/profile_placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "planner/published/max_load.h"
#include "planner/simulate/operations.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

// Largest load of the layers [cuts[i], cuts[i + 1]) of a chain, copies paid by both sides.
std::int64_t chain_load(const CostModel& cost, const std::vector<int>& cuts, int samples) {
  std::int64_t largest = 0;
  for (std::size_t part = 0; part + 1 < cuts.size(); ++part) {
    std::int64_t load = 0;
    for (int layer = cuts[part]; layer < cuts[part + 1]; ++layer) {
      const LayerTimes times = cost.layer(0, layer, samples);
      load += to_ns(times.forward_s) + to_ns(times.backward_s);
    }
    for (const int cut : {cuts[part], cuts[part + 1]}) {
      if (cut == 0 || cut == cost.layers()) continue;
      load += to_ns(cost.copy_seconds(0, 1, cost.boundary_bytes(cut, samples, false))) +
              to_ns(cost.copy_seconds(1, 0, cost.boundary_bytes(cut, samples, true)));
    }
    largest = std::max(largest, load);
  }
  return largest;
}

TEST(ProfilePlacement, OfAChainHasTheBestCutsOfAllForLeastLoad) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 9, 3);
    const CostModel cost(testing::make_profile(shape, testing::random_factors(random, 9)));
    std::int64_t least = chain_load(cost, {0, 9}, 2);
    for (int first = 1; first < 9; ++first) {
      least = std::min(least, chain_load(cost, {0, first, 9}, 2));
      for (int second = first + 1; second < 9; ++second) least = std::min(least, chain_load(cost, {0, first, second, 9}, 2));
    }
    const LoadPartition partition = least_max_load(placement_graph(cost, {0, 1, 2}, 2, 0));
    EXPECT_EQ(partition.load_ns, least);
    EXPECT_TRUE(partition.exact());
  }
}

TEST(ProfilePlacement, SkipsAreCopiedOncePerReceiver) {
  testing::ProfileShape shape;
  shape.latency_s = 0.001;
  Profile profile = testing::make_profile(shape);
  profile.edges.push_back({0, 2, 100, 0, true});
  profile.edges.push_back({0, 3, 50, 0, false});
  const profiler::PlacementGraph graph = placement_graph(CostModel(profile), {0, 1}, 1, 1 << 20);
  EXPECT_EQ(graph.nodes.size(), 8U);
  EXPECT_EQ(graph.memory_bytes, 1 << 20);
  const auto has = [&](const profiler::PlacementTensor& tensor) { return std::ranges::count(graph.tensors, tensor) == 1; };
  EXPECT_TRUE(has({0, {2, 4}, 1'000'000})) << "one output of layer 0 for layers 1 and 2";
  EXPECT_TRUE(has({0, {6}, 1'000'000})) << "another one for layer 3";
  EXPECT_TRUE(has({5, {1}, 1'000'000})) << "a gradient for layer 0 from layer 2";
  EXPECT_FALSE(has({7, {1}, 1'000'000})) << "none from layer 3";
  EXPECT_EQ(graph.nodes[2].colocated, graph.nodes[3].colocated);
  EXPECT_EQ(graph.nodes[0].bytes, 2 * 1000 + 300);
}

TEST(ProfilePlacement, KeepsLayersTogetherWhereNoStageMayBegin) {
  Profile profile = testing::make_profile({});
  profile.forbidden_cuts = {{2, "layer2 works in place on the output of layer1"}};
  const LoadPartition partition = least_max_load(placement_graph(CostModel(profile), {0, 1}, 1, 0));
  for (const LoadPart& part : partition.parts)
    EXPECT_EQ(std::ranges::count(part.nodes, 2), std::ranges::count(part.nodes, 4)) << "layers 1 and 2";
  EXPECT_EQ(partition.load_ns, 9'000'000) << "three of four layers of 3 ms";
}

TEST(ProfilePlacement, RefusesUnequalDevices) {
  Profile profile = testing::make_profile({});
  profile.classes.push_back(profile.classes.front());
  profile.devices[1].device_class = 1;
  EXPECT_THROW((void)placement_graph(CostModel(profile), {0, 1}, 1, 0), Error);
  profile.devices[1].device_class = 0;
  profile.links.clear();
  EXPECT_THROW((void)placement_graph(CostModel(profile), {0, 1}, 1, 0), Error);
}

}  // namespace
}  // namespace mptune::planner

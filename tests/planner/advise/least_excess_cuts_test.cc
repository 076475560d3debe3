#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "planner/advise/fit.h"
#include "planner/advise/fit_variants.h"
#include "planner/cost/stage_flows.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/index.h"
#include "tests/planner/graphs.h"
#include "tests/planner/random_plans.h"

namespace mptune::planner {
namespace {

constexpr int kLayers = 6;

Plan cut_at(Plan plan, int first, int second) {
  plan.stages[0] = {0, first, {0}, {}};
  plan.stages[1] = {first, second, {1}, {}};
  plan.stages[2] = {second, kLayers, {2}, {}};
  return plan;
}

std::int64_t excess(const Plan& plan, std::int64_t cap, const CostModel& cost) {
  return std::max<std::int64_t>(0, std::ranges::max(cost.peak_bytes(plan)) - cap);
}

Profile chain_of_unequal_tensors(std::mt19937& random) {
  Profile profile = testing::make_profile(testing::random_shape(random, kLayers, 3), testing::random_factors(random, kLayers));
  for (LayerEdge& edge : profile.edges) edge.bytes_per_sample = std::uniform_int_distribution<int>(0, 5000)(random);
  return profile;
}

TEST(LeastExcessCuts, AreThoseOfBruteForce) {
  std::mt19937 random(71);
  for (int round = 0; round < 500; ++round) {
    const CostModel cost(chain_of_unequal_tensors(random));
    const Plan plan = testing::scheduled(testing::stages_of(kLayers, {1, 1, 1}, testing::ones(4)), "1f1b");
    const std::int64_t cap = std::ranges::max(cost.peak_bytes(plan)) / 2;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int first = 1; first < kLayers; ++first)
      for (int second = first + 1; second < kLayers; ++second) least = std::min(least, excess(cut_at(plan, first, second), cap, cost));
    const std::vector<int> cuts = least_excess_cuts(plan, {cap, cap, cap}, cost);
    ASSERT_EQ(cuts.size(), 2U);
    ASSERT_EQ(excess(cut_at(plan, cuts[0], cuts[1]), cap, cost), least) << round;
  }
}

// A stage's bytes in a plan whose other stages have other layers are those in the plan of all its cuts.
TEST(LeastExcessCuts, AStageAloneNeedsWhatItNeedsInItsPlan) {
  std::mt19937 random(72);
  for (int round = 0; round < 500; ++round) {
    const CostModel cost(chain_of_unequal_tensors(random));
    const Plan plan = testing::scheduled(testing::stages_of(kLayers, {1, 1, 1}, testing::ones(4)), "1f1b");
    const int first = std::uniform_int_distribution<int>(1, 4)(random), second = std::uniform_int_distribution<int>(first + 1, 5)(random);
    const Plan whole = cut_at(plan, first, second);
    for (int s = 0; s < 3; ++s) {
      Plan alone = plan;
      set_layers(alone, s, whole.stages[as_index(s)].first_layer, whole.stages[as_index(s)].last_layer);
      ASSERT_EQ(cost.peak_bytes(alone, s), cost.peak_bytes(whole, s)) << round << " stage " << s;
    }
  }
}

TEST(LeastExcessCuts, GraphsHaveCutsToo) {
  std::mt19937 random(73);
  for (int round = 0; round < 300; ++round) {
    const CostModel cost(testing::with_random_edges(chain_of_unequal_tensors(random), random));
    const Plan plan = testing::scheduled(testing::stages_of(kLayers, {1, 1, 1}, testing::ones(4)), "1f1b");
    const std::int64_t cap = std::ranges::max(cost.peak_bytes(plan)) / 2;
    const std::vector<int> cuts = least_excess_cuts(plan, {cap, cap, cap}, cost);
    ASSERT_EQ(cuts.size(), 2U);
    ASSERT_TRUE(0 < cuts[0] && cuts[0] < cuts[1] && cuts[1] < kLayers);
    const int needed = devices_needed(plan, "sleep:0", cap, kLayers, cost).count;
    ASSERT_TRUE(0 <= needed && needed <= kLayers);
    const FitQuestion question{plan, {"sleep:0", "sleep:1", "sleep:2"}, {cap, cap, cap}, {}};
    for (const FittingChange& change : smallest_changes_that_fit(question, cost).changes)
      ASSERT_EQ(excess_of(change.plan, cost.peak_bytes(change.plan), question.devices, question.memory_bytes).bytes, 0);
  }
}

}  // namespace
}  // namespace mptune::planner

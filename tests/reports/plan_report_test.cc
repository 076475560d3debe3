#include "mptune/reports/plan_report.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "mptune/tests/planner/profiles.h"
#include "mptune/tuner/runtime/capabilities.h"

namespace mptune {
namespace {

using ::testing::HasSubstr;

TEST(PlanReport, SaysWhatTheSearchFound) {
  std::mt19937 random(3);
  const CostModel cost(
      test::make_profile({.layers = 9, .devices = 3, .bytes_per_second = 1e8, .reduce_s_per_byte = 1e-4}, test::random_factors(random, 9)));
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1", "sleep:2"};
  space.batch = 12;
  space.capabilities = kRuntime;
  const SearchResult result = search_plans(space, cost);
  ASSERT_EQ(result.best_pipeline, 0);
  const PlanReport report = build_plan_report(result, memory_front(space, cost, 0.8), cost);
  const Plan& plan = result.ranked[0].plan;
  ASSERT_EQ(report.layers.size(), 9u);
  ASSERT_EQ(report.stages.size(), plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const double sum =
        std::accumulate(report.layers.begin() + plan.stages[s].first_layer, report.layers.begin() + plan.stages[s].last_layer, 0.0,
                        [](double so_far, const PlannedLayer& layer) { return so_far + layer.step_s; });
    EXPECT_NEAR(report.stages[s].step_s, sum, 1e-12);
    EXPECT_LT(sum, report.step_s);
  }
  EXPECT_EQ(report.alternatives.size() + 1, result.ranked.size());
  for (const PlannedOther& other : report.alternatives) {
    EXPECT_GE(other.step_s, report.step_s);
    EXPECT_FALSE(other.what.empty());
  }
  ASSERT_FALSE(report.front.empty());
  EXPECT_EQ(report.front[0].step_s, report.step_s);
  EXPECT_THAT(report.limit, HasSubstr("limits the step: it computes"));
  EXPECT_FALSE(report.trace.timeline.empty());
}

TEST(StageLimit, MovesOfTheBestPlanCostTime) {
  std::mt19937 random(4);
  int moves = 0;
  for (int round = 0; round < 20; ++round) {
    const CostModel cost(test::make_profile({.layers = 12, .devices = 3, .bytes_per_second = 1e8}, test::random_factors(random, 12)));
    SearchSpace space;
    space.devices = {"sleep:0", "sleep:1", "sleep:2"};
    space.batch = 12;
    space.capabilities = kRuntime;
    space.stage_counts = {3};
    space.schedules = {"1f1b"};
    const SearchResult result = search_plans(space, cost);
    const auto limit = stage_limit(result.ranked.at(0), cost);
    ASSERT_TRUE(limit);
    const Stage& stage = result.ranked[0].plan.stages[static_cast<std::size_t>(limit->stage)];
    EXPECT_TRUE(limit->layer >= stage.first_layer && limit->layer < stage.last_layer);
    EXPECT_LE(limit->layer_s, limit->busy_s + 1e-9);
    for (const StageLimit::Move& move : limit->moves) {
      EXPECT_GE(move.step_s, result.ranked[0].prediction.step_s) << "the plan was the best of these cuts";
      ++moves;
    }
  }
  EXPECT_GT(moves, 10);
}

TEST(StageLimit, OneStageHasNone) {
  const CostModel cost(test::make_profile({.layers = 3, .devices = 1}));
  PlanOptions options;
  options.devices = {"sleep:0"};
  options.batch = 4;
  options.layers = 3;
  options.schedule = "naive";
  const Plan plan = make_plan(options);
  EXPECT_FALSE(stage_limit({plan, predict(plan, cost)}, cost));
}

}  // namespace
}  // namespace mptune

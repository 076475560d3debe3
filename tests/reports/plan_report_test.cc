#include "reports/values/plan_report.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "planner/plan/offload.h"
#include "planner/search/bounds/stage_limit.h"
#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "reports/render/plan_text.h"
#include "tests/planner/offloading.h"
#include "tests/planner/profiles.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::reports {
namespace {

using ::testing::HasSubstr;

TEST(PlanReport, SaysWhatTheSearchFound) {
  std::mt19937 random(3);
  const CostModel cost(testing::make_profile({.layers = 9, .devices = 3, .bytes_per_second = 1e8, .reduce_s_per_byte = 1e-4},
                                             testing::random_factors(random, 9)));
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1", "sleep:2"};
  space.batch = 12;
  space.capabilities.split_backward = false;
  const SearchResult result = search_plans(space, cost);
  ASSERT_EQ(result.best_pipeline, 0);
  const PlanReport report = build_plan_report(result, memory_front(space, cost, 0.8), cost, space);
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
    const CostModel cost(testing::make_profile({.layers = 12, .devices = 3, .bytes_per_second = 1e8}, testing::random_factors(random, 12)));
    SearchSpace space;
    space.devices = {"sleep:0", "sleep:1", "sleep:2"};
    space.batch = 12;
    space.capabilities = tuner::kRuntime;
    space.stage_counts = {3};
    space.schedules = {"1f1b"};
    const SearchResult result = search_plans(space, cost);
    const auto limit = planner::stage_limit(result.ranked.at(0), cost, {});
    ASSERT_TRUE(limit);
    const Stage& stage = result.ranked[0].plan.stages[as_index(limit->stage)];
    EXPECT_TRUE(limit->layer >= stage.first_layer && limit->layer < stage.last_layer);
    EXPECT_LE(limit->layer_s, limit->busy_s + 1e-9);
    for (const planner::StageLimit::Move& move : limit->moves) {
      EXPECT_GE(move.step_s, result.ranked[0].prediction.step_s) << "the plan was the best of these cuts";
      EXPECT_EQ(move.excess_bytes, 0);
      ++moves;
    }
  }
  EXPECT_GT(moves, 10);
}

Candidate cut_at(const std::vector<std::string>& devices, const std::vector<int>& cuts, const CostModel& cost) {
  PlanOptions options;
  options.devices = devices;
  options.batch = options.microbatches = 4;
  options.layers = cost.layers();
  options.cuts = cuts;
  const Plan plan = make_plan(options);
  return {plan, predict(plan, cost)};
}

Candidate badly_cut(const CostModel& cost) {
  return cut_at({"sleep:0", "sleep:1"}, {1}, cost);
}

TEST(StageLimit, MovesThatWouldHelpSayWhetherTheyFit) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  const Candidate candidate = badly_cut(cost);
  const auto free = planner::stage_limit(candidate, cost, {});
  ASSERT_TRUE(free);
  ASSERT_EQ(free->moves.size(), 1u);
  EXPECT_EQ(std::pair(free->moves[0].layer, free->moves[0].to_stage), std::pair(1, 0));
  // Two equal stages of two layers: (4 + 2 - 1) turns of 6 ms.
  EXPECT_NEAR(free->moves[0].step_s, 0.03, 1e-9);
  EXPECT_EQ(free->moves[0].excess_bytes, 0);
  const auto capped = planner::stage_limit(candidate, cost, {candidate.prediction.peak_bytes[0], 0});
  ASSERT_TRUE(capped);
  EXPECT_GT(capped->moves.at(0).excess_bytes, 0) << "another layer does not fit on the first device";
}

TEST(StageLimit, ALayerThatMovesIsRecomputedWhereItsNewStageRecomputesAll) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  Candidate candidate = badly_cut(cost);
  const double plain_s = planner::stage_limit(candidate, cost, {})->moves.at(0).step_s;
  candidate.plan.stages[1].recompute = {Recompute::Mode::some, {1}, {}};
  EXPECT_NEAR(planner::stage_limit(candidate, cost, {})->moves.at(0).step_s, plain_s, 1e-9);
  candidate.plan.stages[0].recompute = {Recompute::Mode::all, {}, {}};
  EXPECT_GT(planner::stage_limit(candidate, cost, {})->moves.at(0).step_s, plain_s * 1.1);
}

TEST(PlanReport, SaysWhyALayerIsNotMoved) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  SearchResult result;
  result.ranked = {badly_cut(cost)};
  SearchSpace space;
  space.devices = {"sleep:1", "sleep:0"};
  EXPECT_THAT(build_plan_report(result, {}, cost, space).limit,
              HasSubstr("on stage 0 the step would be 23.1 % shorter, which this search did not see"));
  space.memory_bytes = {0, result.ranked[0].prediction.peak_bytes[0]};
  EXPECT_EQ(build_plan_report(result, {}, cost, space).excess_bytes, 0);
  EXPECT_THAT(build_plan_report(result, {}, cost, space).limit,
              HasSubstr("on stage 0 the step would be 23.1 % shorter and not fit into memory"));
}

TEST(PlanReport, SaysWhatDoesNotFitByTheSimulatorsCount) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  SearchResult result;
  result.ranked = {badly_cut(cost)};
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1"};
  space.memory_bytes = {0, result.ranked[0].prediction.peak_bytes[1] - 5};
  const PlanReport report = build_plan_report(result, {}, cost, space);
  EXPECT_EQ(report.excess_bytes, 5);
  EXPECT_EQ(report.excess_device, "sleep:1");
  EXPECT_THAT(render_plan(report, {.width = 400}), HasSubstr("does not fit: sleep:1 needs 5 B more than it may have"));
}

TEST(PlanReport, SaysWhoseWorkAStageIsThatTakesMoreThanTheStep) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  SearchResult result;
  result.ranked = {badly_cut(cost)};
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1"};
  for (const PlannedStage& stage : build_plan_report(result, {}, cost, space).stages) EXPECT_EQ(stage.beyond_step, "");
  result.ranked[0].prediction.step_s /= 100;
  const PlanReport report = build_plan_report(result, {}, cost, space);
  for (const PlannedStage& stage : report.stages) EXPECT_NE(stage.beyond_step, "");
  EXPECT_THAT(render_plan(report, {.width = 400}), HasSubstr("stage 0 takes more time than the step: " + report.stages[0].beyond_step));
}

TEST(PlanReport, FusingMayPayOnlyWhereALayerFusesAndPlansNeedNotBeExact) {
  Profile profile = testing::make_profile({.layers = 4, .devices = 2});
  SearchResult result;
  result.ranked = {badly_cut(CostModel(profile))};
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1"};
  EXPECT_FALSE(build_plan_report(result, {}, CostModel(profile), space).may_fuse);
  profile.classes[0].layers[1].by_samples[0].split = SplitMemory{.fused_share = 0.5};
  EXPECT_TRUE(build_plan_report(result, {}, CostModel(profile), space).may_fuse);
  space.exact = true;
  EXPECT_FALSE(build_plan_report(result, {}, CostModel(profile), space).may_fuse);
}

// Copies to the host and back are in the timeline, and no bound is told.
TEST(PlanReport, ShowsAPlanThatOffloads) {
  const CostModel cost(
      testing::with_host_copies(testing::with_gpus(testing::make_profile({.layers = 8, .devices = 2}), 0), {1e-5, 1e8}, {1e-5, 1e8}));
  SearchSpace space;
  space.devices = {"sleep:0", "sleep:1"};
  space.memory_bytes = {15'000, 15'000};
  space.batch = 8;
  space.microbatch_counts = {8};
  space.schedules = {"gpipe"};
  space.stage_counts = {2};
  const SearchResult result = search_plans(space, cost);
  ASSERT_TRUE(planner::offloads(result.ranked.at(0).plan));
  const PlanReport report = build_plan_report(result, memory_front(space, cost, 0.8, result.ranked), cost, space);
  EXPECT_TRUE(report.may_offload);
  EXPECT_TRUE(report.stages[0].offload || report.stages[1].offload);
  EXPECT_FALSE(report.trace.timeline.empty());
  const std::string text = render_plan(report, {.width = 200});
  EXPECT_THAT(text, HasSubstr("stages 0-1 offload their saved activations: "));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("lower bound of all plans")));
}

TEST(PlanReport, PlansOfAnotherNumberOfStagesAreNamedWithTheirCuts) {
  const CostModel cost(testing::make_profile({.layers = 6, .devices = 3}));
  const std::vector<std::string> three = {"sleep:0", "sleep:1", "sleep:2"};
  const Candidate best = cut_at(three, {2, 4}, cost);
  const Candidate two = cut_at({"sleep:0", "sleep:1"}, {3}, cost);
  EXPECT_EQ(compared_with(best, two), "25.0 % slower: pipeline of 2 stages, 1f1b, 4 micro-batches of 1, cuts 3");
  EXPECT_THAT(compared_with(best, cut_at(three, {2, 5}, cost)), ::testing::EndsWith(" slower: cuts: 4 -> 5"));
  SearchResult result;
  result.ranked = {best};
  const PlanReport report = build_plan_report(result, {best, two}, cost, {});
  ASSERT_EQ(report.front.size(), 2u);
  EXPECT_EQ(report.front[0].what, "the plan above");
  EXPECT_THAT(report.front[1].what, HasSubstr("cuts 3"));
}

TEST(StageLimit, OneStageHasNone) {
  const CostModel cost(testing::make_profile({.layers = 3, .devices = 1}));
  PlanOptions options;
  options.devices = {"sleep:0"};
  options.batch = 4;
  options.layers = 3;
  options.schedule = "naive";
  const Plan plan = make_plan(options);
  EXPECT_FALSE(planner::stage_limit({plan, predict(plan, cost)}, cost, {}));
}

}  // namespace
}  // namespace mptune::reports

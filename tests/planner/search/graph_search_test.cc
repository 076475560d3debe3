#include "planner/search/graph/graph_search.h"
#include "planner/search/graph/graph_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/search/graph/graph_states.h"
#include "planner/search/search.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"
#include "profiler/trace/values/profile_tensors.h"
#include "tests/planner/graphs.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

SearchSpace graph_space(int devices, int batch) {
  SearchSpace space;
  space.devices = testing::names(devices);
  space.batch = batch;
  return space;
}

double best_step_s(const SearchResult& result) {
  return result.ranked.front().prediction.step_s;
}

TEST(GraphSearch, BranchesGoToDevicesOfTheirOwn) {
  const Profile profile = testing::two_branches({.devices = 2, .fixed_s = 0.01}, 4);
  const SearchResult result = search_plans(graph_space(2, 4), CostModel(profile));
  const SearchResult chain = search_plans(graph_space(2, 4), CostModel(as_chain(profile)));
  EXPECT_LT(best_step_s(result), 0.75 * best_step_s(chain)) << "with one micro-batch, as layers cost the same for any";
  EXPECT_GE(result.ranked.front().plan.num_stages(), 3) << "the head apart";
  EXPECT_LE(result.lower_bound_s, best_step_s(result));
  EXPECT_GE(result.lower_bound_s, 0.8 * best_step_s(result));
}

// Every set of cuts on every device, with the rows that the search would make of it.
double slowly(const SearchSpace& space, const CostModel& cost) {
  double best = std::numeric_limits<double>::infinity();
  const int devices = static_cast<int>(space.devices.size());
  for (int chosen = 1; chosen < 1 << (cost.layers() - 1); ++chosen) {
    GraphState state;
    for (int cut = 1; cut < cost.layers(); ++cut)
      if ((chosen >> (cut - 1)) % 2 == 1) state.cuts.push_back(cut);
    if (state.cuts.size() > 3) continue;
    state.devices.assign(state.cuts.size() + 1, 0);
    for (bool more = true; more;) {
      for (const int m : space.microbatch_counts) {
        state.microbatches = m;
        Plan plan = plan_of(state, space.devices, space.batch, cost.layers());
        schedule_plan(plan, "list", cost);
        validate_schedule(plan, "test");
        best = std::min(best, predict(plan, cost).step_s);
      }
      std::size_t s = 0;
      while (s < state.devices.size() && ++state.devices[s] == devices) state.devices[s++] = 0;
      more = s < state.devices.size();
    }
  }
  return best;
}

// The search is no proof; this says how near it comes.
TEST(GraphSearch, ComesNearToBruteForce) {
  std::mt19937 random(61);
  int equal = 0;
  double worst = 0;
  constexpr int kRounds = testing::cases(12);
  for (int round = 0; round < kRounds; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 6, 2);
    const Profile profile = testing::with_random_edges(testing::make_profile(shape, testing::random_factors(random, 6)), random);
    const CostModel cost(profile);
    SearchSpace space = graph_space(2, 4);
    space.microbatch_counts = {1, 2, 4};
    const SearchResult result = search_plans(space, cost);
    const double brute_s = slowly(space, cost);
    ASSERT_LE(result.lower_bound_s, brute_s + 1e-12) << round;
    ASSERT_LE(best_step_s(result), best_step_s(search_plans(space, CostModel(as_chain(profile)))) * 1.02) << round;
    equal += best_step_s(result) <= brute_s * (1 + 1e-9) ? 1 : 0;
    worst = std::max(worst, best_step_s(result) / brute_s - 1);
  }
  EXPECT_GE(equal, kRounds * 8 / 10);
  EXPECT_LE(worst, 0.1);
  RecordProperty("equal", equal);
  RecordProperty("worst_percent", static_cast<int>(100 * worst));
}

TEST(GraphSearch, TheBoundIsBelowRandomPlans) {
  std::mt19937 random(62);
  double nearest = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    const int devices = draw(1, 3);
    const Profile profile = testing::with_random_edges(
        testing::make_profile(testing::random_shape(random, 7, devices), testing::random_factors(random, 7)), random);
    const CostModel cost(profile);
    GraphState state{{draw(1, 3), draw(4, 6)}, {draw(0, devices - 1), draw(0, devices - 1), draw(0, devices - 1)}, draw(1, 4)};
    SearchSpace space = graph_space(devices, 8);
    space.microbatch_counts = {state.microbatches};
    const std::string schedule = draw(0, 1) == 0 ? "gpipe" : "list";
    if (draw(0, 1) == 0) space.schedules = {schedule};
    if (draw(0, 2) > 0) space.stage_counts = {3};
    Plan plan = plan_of(state, space.devices, space.batch, 7);
    schedule_plan(plan, schedule, cost);
    const double bound_s = static_cast<double>(graph_bound_ns(space, cost)) * 1e-9;
    ASSERT_LE(bound_s, predict(plan, cost).step_s + 1e-12) << round;
    nearest = std::max(nearest, bound_s / predict(plan, cost).step_s);
  }
  EXPECT_GT(nearest, 0.99);
}

TEST(GraphSearch, TheBoundOfAFewStagesHoldsWithReplicas) {
  std::mt19937 random(63);
  int replicas = 0;
  for (int round = 0; round < 1000; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 4)(random);
    const Profile profile = testing::with_random_edges(
        testing::make_profile(testing::random_shape(random, 8, devices), testing::random_factors(random, 8)), random);
    const CostModel cost(profile);
    const Plan plan = testing::random_plan(random, 8, devices);
    SearchSpace space = graph_space(devices, plan.global_batch_size());
    space.microbatch_counts = {plan.num_microbatches()};
    space.stage_counts = {plan.num_stages()};
    if (plan.microbatch_sizes != split_evenly(space.batch, plan.num_microbatches())) continue;
    replicas += has_replicas(plan) ? 1 : 0;
    ASSERT_LE(static_cast<double>(graph_bound_ns(space, cost)) * 1e-9, predict(plan, cost).step_s + 1e-12) << round;
  }
  EXPECT_GT(replicas, 50);
}

// A chain on one device a stage: the bound is what the slowest stage takes, and the step.
TEST(GraphSearch, TheBoundOfAFewStagesIsReached) {
  Profile profile = testing::make_profile({.layers = 6, .devices = 2, .forward_s = 0.001, .backward_s = 0.002});
  profile.edges.push_back({0, 2, 1, 0, true});
  const CostModel cost(profile);
  SearchSpace space = graph_space(2, 8);
  space.microbatch_counts = {4};
  space.stage_counts = {2};
  space.schedules = {"1f1b"};
  const double step_s = 0.006 + 4 * 0.018 + 0.012;  // of the second stage, between the forward and the backward of the first
  EXPECT_NEAR(static_cast<double>(graph_bound_ns(space, cost)) * 1e-9, step_s, 1e-9);
  EXPECT_NEAR(best_step_s(search_plans(space, cost)), step_s, 1e-9);
}

TEST(GraphSearch, CapsAreKept) {
  const Profile profile = testing::two_branches({.devices = 2, .fixed_s = 0.01}, 3);
  const CostModel cost(profile);
  SearchSpace space = graph_space(2, 8);
  const std::int64_t most = std::ranges::max(search_plans(space, cost).ranked.front().prediction.peak_bytes);
  space.memory_bytes = {most * 9 / 10, most * 9 / 10};
  const SearchResult result = search_plans(space, cost);
  for (const Candidate& candidate : result.ranked)
    for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, most * 9 / 10);
}

TEST(GraphSearch, ChoicesAreKept) {
  const Profile profile = testing::two_branches({.devices = 2, .fixed_s = 0.01}, 3);
  SearchSpace space = graph_space(2, 4);
  space.schedules = {"1f1b"};
  space.stage_counts = {2};
  for (const Candidate& candidate : search_plans(space, CostModel(profile)).ranked) {
    EXPECT_EQ(candidate.plan.schedule, "1f1b");
    EXPECT_EQ(candidate.plan.num_stages(), 2);
  }
}

TEST(GraphSearch, TheFrontGivesMemoryForTime) {
  const CostModel cost(testing::two_branches({.devices = 2, .fixed_s = 0.01}, 3));
  const std::vector<Candidate> front = memory_front(graph_space(2, 4), cost, 0.9);
  ASSERT_FALSE(front.empty());
  for (std::size_t k = 1; k < front.size(); ++k) EXPECT_GE(front[k].prediction.step_s, front[k - 1].prediction.step_s);
}

}  // namespace
}  // namespace mptune::planner

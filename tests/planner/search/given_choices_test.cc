#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "planner/plan/file/plan_file.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/schedule_costs.h"
#include "profiler/base/error.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using testing::draw_shape;
using testing::make_profile;
using testing::names;
using testing::options_of;

// All plans of the given replicas and recomputation, one after another; the fastest time.
double fastest_of(const SearchSpace& space, const CostModel& cost, std::set<std::string>& keys) {
  double fastest = 1e9;
  std::vector<int> chosen;
  const std::function<void()> all_cuts = [&] {
    if (chosen.size() + 1 < space.replicas.size()) {
      for (int cut = chosen.empty() ? 1 : chosen.back() + 1; cut < cost.layers(); ++cut) {
        chosen.push_back(cut);
        all_cuts();
        chosen.pop_back();
      }
      return;
    }
    for (const int m : {1, 2, 3, 4, 6, 8, 12}) {
      for (const std::string schedule : {"naive", "gpipe", "1f1b"}) {
        const int most = *std::max_element(space.replicas.begin(), space.replicas.end());
        if (m > space.batch || m < most || (schedule == "naive") != (m == 1)) continue;
        PlanOptions options = options_of(space.devices, space.batch, cost.layers(), schedule);
        options.cuts = chosen;
        options.replicas = space.replicas;
        options.recompute = space.recompute;
        options.microbatches = m;
        const Plan plan = make_plan(options);
        keys.insert(plan_key(plan));
        fastest = std::min(fastest, predict(plan, cost).step_s);
      }
    }
  };
  all_cuts();
  return fastest;
}

TEST(SearchPlans, GivenReplicasAndRecomputationEqualBruteForce) {
  std::mt19937 random(13);
  for (int round = 0; round < 60; ++round) {
    const CostModel cost(make_profile(draw_shape(random, 6, 4), testing::random_factors(random, 6)));
    SearchSpace space;
    space.devices = names(4);
    space.schedules = {"naive", "gpipe", "1f1b"};
    space.batch = std::uniform_int_distribution<int>(4, 12)(random);
    const std::vector<std::vector<int>> replicas = {{2, 2}, {3, 1}, {1, 3}, {1, 1, 2}, {2, 1, 1}, {1, 1, 1, 1}};
    space.replicas = replicas[as_index(round) % replicas.size()];
    const std::vector<std::string> recompute = {"none", "all", "0", "0,1"};
    space.recompute = recompute[as_index(round / 6) % recompute.size()];
    std::set<std::string> keys;
    const double fastest = fastest_of(space, cost, keys);
    space.keep = 1;
    const SearchResult few = search_plans(space, cost);
    ASSERT_FALSE(few.ranked.empty());
    EXPECT_EQ(few.ranked[0].prediction.step_s, fastest) << round;
    EXPECT_EQ(few.best_pipeline, 0);
    space.keep = 100000;
    const SearchResult all = search_plans(space, cost);
    EXPECT_EQ(all.ranked.size(), keys.size()) << round;
    for (const Candidate& candidate : all.ranked) EXPECT_EQ(keys.count(plan_key(candidate.plan)), 1u);
  }
}

TEST(SearchPlans, RecomputesTheGivenStagesOnly) {
  const CostModel cost(make_profile({.layers = 4, .devices = 3}));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 6;
  space.keep = 100000;
  space.recompute = "1";
  for (const Candidate& candidate : search_plans(space, cost).ranked) {
    ASSERT_GE(candidate.plan.num_stages(), 2) << "one stage has no stage 1";
    for (int s = 0; s < candidate.plan.num_stages(); ++s)
      EXPECT_EQ(candidate.plan.stages[as_index(s)].recompute.mode == Recompute::Mode::all, s == 1);
  }
  space.recompute = "all";
  std::set<int> stages;
  for (const Candidate& candidate : search_plans(space, cost).ranked) {
    stages.insert(candidate.plan.num_stages());
    for (const Stage& stage : candidate.plan.stages) EXPECT_EQ(stage.recompute.mode, Recompute::Mode::all);
  }
  EXPECT_EQ(stages, (std::set<int>{1, 2, 3}));
}

TEST(SearchPlans, OneStageOfAllDevicesIsDataParallel) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}));
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.replicas = {2};
  const SearchResult result = search_plans(space, cost);
  ASSERT_EQ(result.ranked.size(), 4u) << "1, 2, 3 and 4 micro-batches per replica";
  for (const Candidate& candidate : result.ranked) EXPECT_EQ(candidate.plan.stages.at(0).devices.size(), 2u);
}

TEST(SearchPlans, OneStageHasTheScheduleThatWasAskedFor) {
  const CostModel cost(make_profile({.layers = 4, .devices = 1}));
  SearchSpace space;
  space.devices = names(1);
  space.batch = 4;
  space.stage_counts = {1};
  space.microbatch_counts = {4};
  for (const char* name : {"gpipe", "1f1b", "eager-1f1b", "zb1p", "list"}) {
    space.schedules = {name};
    EXPECT_EQ(search_plans(space, cost).ranked.at(0).plan.schedule, name);
  }
  space.schedules = {"gpipe"};
  EXPECT_EQ(planner::to_text(search_plans(space, cost).ranked.at(0).plan.actions.at(0)), "0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3");
}

TEST(SearchPlans, GivenCutsThatItDidNotTryAreNotProved) {
  std::mt19937 random(15);
  testing::ProfileShape shape{.layers = 6, .devices = 2, .latency_s = 1e-5, .reduce_s_per_byte = 1e-4};
  const CostModel cost(make_profile(shape, testing::random_factors(random, 6)));
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.cuts = {{2}, {3}, {4}};
  space.stage_counts = {1, 2};
  space.schedules = {"naive", "gpipe", "1f1b"};
  const auto unreached = [](const SearchResult& result) {
    std::int64_t count = 0;
    for (const Rejection& rejection : result.rejected) count += rejection.reason == RejectedAs::not_reached ? rejection.count : 0;
    return count;
  };
  const SearchResult whole = search_plans(space, cost);
  ASSERT_GT(whole.ranked.at(0).plan.num_stages(), 1);
  EXPECT_TRUE(whole.complete);
  EXPECT_EQ(unreached(whole), 0);
  space.most_actions = 1;
  const SearchResult part = search_plans(space, cost);
  EXPECT_FALSE(part.complete);
  EXPECT_GT(unreached(part), 0);
  EXPECT_LE(part.lower_bound_s, whole.ranked[0].prediction.step_s);
}

// One layer a stage: rows made with the caps.
Plan capped_plan(const SearchSpace& space, const CostModel& cost, const std::vector<std::int64_t>& caps) {
  PlanOptions options = options_of(space.devices, space.batch, cost.layers());
  options.microbatches = space.batch;
  Plan plan = make_plan(options);
  const ScheduleCosts costs = schedule_costs(plan, cost, caps);
  make_schedule(plan, "eager-1f1b", &costs);
  return plan;
}

// A shallower warm-up, which caps ask for, may be the faster one: what is known of rows without caps says nothing of it.
TEST(SearchPlans, BoundsPlansWhoseRowsDependOnMemory) {
  int faster = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    testing::ProfileShape shape = testing::random_shape(random, 3, 3);
    shape.latency_s = std::uniform_real_distribution<double>(0.0, 0.005)(random);
    shape.reduce_s_per_byte = 1e-4;
    const CostModel cost(make_profile(shape, testing::random_factors(random, 3)));
    SearchSpace space;
    space.devices = names(3);
    space.batch = 12;
    space.microbatch_counts = {12};
    space.stage_counts = {3};
    space.schedules = {"eager-1f1b"};
    space.keep = 1;
    const Plan open = capped_plan(space, cost, {});
    const std::vector<std::int64_t> peaks = cost.peak_bytes(open);
    space.memory_bytes.assign(3, *std::ranges::max_element(peaks) * std::uniform_int_distribution<int>(5, 9)(random) / 10);
    const Plan plan = capped_plan(space, cost, space.memory_bytes);
    const double step_s = predict(plan, cost).step_s;
    const bool fits = std::ranges::all_of(cost.peak_bytes(plan), [&](std::int64_t peak) { return peak <= space.memory_bytes[0]; });
    if (!fits || step_s >= predict(open, cost).step_s) continue;
    ++faster;
    const SearchResult result = search_plans(space, cost);
    EXPECT_LE(result.lower_bound_s, step_s) << seed;
    EXPECT_LE(result.ranked.at(0).prediction.step_s, step_s) << seed;
    EXPECT_FALSE(result.complete) << seed;
  }
  EXPECT_GT(faster, 1);
}

// Copies that queue may come into a better order where a backward takes longer: no step without caps bounds one with them.
TEST(SearchPlans, ProvesNothingUnderCapsWhereCopiesQueue) {
  Profile profile = make_profile({.layers = 4, .devices = 2, .bytes_per_second = 1e5, .reduce_s_per_byte = 1e-4});
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.stage_counts = {2};
  space.replicas = {1, 1};
  space.microbatch_counts = {8};
  space.schedules = {"1f1b"};
  space.memory_bytes = {7000, 7000};
  EXPECT_TRUE(search_plans(space, CostModel(profile)).complete);
  for (LinkCost& link : profile.links) link.medium = 0;
  EXPECT_FALSE(search_plans(space, CostModel(profile)).complete);
}

TEST(SearchPlans, ListSchedulesAreNoPartOfAProofWhereTheirRowsDecide) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2, .reduce_s_per_byte = 1e-4}));
  SearchSpace space;
  space.devices = names(2);
  space.batch = 8;
  space.capabilities.split_backward = false;
  space.schedules = {"1f1b", "list"};
  const auto unproved = [](const SearchResult& result) {
    return std::ranges::find(result.rejected, RejectedAs::rows_decide, &Rejection::reason) != result.rejected.end();
  };
  EXPECT_TRUE(unproved(search_plans(space, cost)));
  space.schedules = {"1f1b"};
  EXPECT_FALSE(unproved(search_plans(space, cost)));
}

TEST(SearchPlans, RefusesChoicesThatNoPlanAnswersTo) {
  const CostModel cost(make_profile({.layers = 4, .devices = 3}));
  SearchSpace space;
  space.devices = names(3);
  space.batch = 8;
  space.replicas = {2, 2};
  EXPECT_THROW((void)search_plans(space, cost), Error);
  space.replicas = {2, 1};
  space.microbatch_counts = {1};
  EXPECT_THROW((void)search_plans(space, cost), Error);
  space.microbatch_counts = {2};
  EXPECT_FALSE(search_plans(space, cost).ranked.empty());
  space.recompute = "2";
  EXPECT_THROW((void)search_plans(space, cost), Error);
  space.recompute = "some";
  EXPECT_THROW((void)search_plans(space, cost), Error);
}

}  // namespace
}  // namespace mptune::planner

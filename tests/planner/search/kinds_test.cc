// What a search always returns, whatever is fastest: the best plan of each kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "planner/search/make_plan.h"
#include "planner/search/search.h"
#include "profiler/base/index.h"
#include "tests/planner/search/brute_force.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

using testing::BruteForce;
using testing::counts_of;
using testing::draw_shape;
using testing::make_profile;
using testing::names;
using testing::options_of;
using testing::step;

TEST(SearchPlans, AlwaysReturnsTheBestOfEachKind) {
  std::mt19937 random(21);
  for (int round = 0; round < testing::cases(40); ++round) {
    Profile profile = make_profile(draw_shape(random, 6, 2), testing::random_factors(random, 6));
    profile.classes.push_back(profile.classes[0]);
    profile.devices.push_back({"cpu:0-1", 1, 0});
    const CostModel cost(profile);
    SearchSpace space;
    space.devices = names(2);
    space.whole_machine = {"cpu:0-1"};
    space.batch = 8;
    space.capabilities = testing::kWholeBackwards;
    space.keep = 1;
    const SearchResult few = search_plans(space, cost);
    space.keep = 100000;
    const SearchResult all = search_plans(space, cost);
    const auto kind = [](const Plan& plan) {
      if (plan.num_stages() > 1) return 3;
      if (plan.devices.size() > 1) return 2;
      return plan.devices[0] == "cpu:0-1" ? 1 : 0;
    };
    double best[4] = {1e9, 1e9, 1e9, 1e9};
    for (const Candidate& candidate : few.ranked) {
      double& fastest = best[kind(candidate.plan)];
      fastest = std::min(fastest, candidate.prediction.step_s);
    }
    for (const Candidate& candidate : all.ranked) EXPECT_LE(best[kind(candidate.plan)], candidate.prediction.step_s) << round;
    ASSERT_GE(few.best_pipeline, 0);
    EXPECT_EQ(few.ranked[as_index(few.best_pipeline)].prediction.step_s, best[3]);
    EXPECT_TRUE(std::is_sorted(few.ranked.begin(), few.ranked.end(),
                               [](const auto& a, const auto& b) { return a.prediction.step_s < b.prediction.step_s; }));
  }
}

// All cores as one device hold the whole model in one device's cap.
TEST(SearchPlans, TheUnpipelinedModelOnAllCoresKeepsToItsCap) {
  Profile profile = make_profile({.layers = 6, .devices = 2});
  profile.classes.push_back(profile.classes[0]);
  for (LayerCosts& layer : profile.classes[1].layers) {
    for (LayerCost& cost : layer.by_samples) {
      cost.forward = exactly(median(cost.forward) / 8);
      cost.backward = exactly(median(cost.backward) / 8);
    }
  }
  profile.devices.push_back({"cpu:0-1", 1, 0});
  const CostModel cost(profile);
  SearchSpace space;
  space.devices = names(2);
  space.whole_machine = {"cpu:0-1"};
  space.batch = 8;
  space.capabilities = testing::kWholeBackwards;
  space.recompute = "none";
  EXPECT_EQ(search_plans(space, cost).ranked.front().plan.devices, space.whole_machine) << "faster than any pipeline";
  const std::int64_t cap = 2 * 6000 - 1;  // not even parameters and gradients of the whole model
  space.memory_bytes = {cap, cap};
  space.whole_machine_memory_bytes = cap;
  const SearchResult capped = search_plans(space, cost);
  ASSERT_FALSE(capped.ranked.empty());
  for (const Candidate& candidate : capped.ranked) {
    EXPECT_GT(candidate.plan.num_stages(), 1);
    for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, cap);
  }
}

// Data parallel, pipelines and hybrids of three and four devices, against every plan of the space.
TEST(SearchPlans, AlwaysReturnsTheBestPipelineAndTheBestHybrid) {
  std::mt19937 random(23);
  int hybrid_first = 0;
  int pipeline_first = 0;
  for (int round = 0; round < testing::cases(24); ++round) {
    const int devices = 3 + round % 2;
    testing::ProfileShape shape = draw_shape(random, 5, devices);
    // Where sums over replicas are expensive, pipelines without them are faster.
    if (round % 3 == 0) shape.reduce_s_per_byte = 1e-4;
    const CostModel cost(make_profile(shape, testing::random_factors(random, 5)));
    SearchSpace space;
    space.devices = names(devices);
    space.batch = 6;
    space.schedules = {"naive", "gpipe", "1f1b", "interleaved"};
    space.capabilities = testing::kWholeBackwards;
    space.keep = 1;
    const SearchResult few = search_plans(space, cost);
    BruteForce brute{space, cost, counts_of(space.batch)};
    brute.run();
    // The plan in half the memory is returned, too. It may be the faster one: layers are computed again while a gradient arrives.
    const std::int64_t half = cost.peak_bytes(make_plan(options_of({"sleep:0"}, 6, 5, "naive"))).front() / 2;
    SearchSpace within = space;
    within.memory_bytes.assign(as_index(devices), half);
    BruteForce in_half{within, cost, brute.counts};
    in_half.run();
    for (const bool replicas : {false, true}) {
      const auto of_kind = [&](const Candidate& candidate) {
        return candidate.plan.num_stages() > 1 && has_replicas(candidate.plan) == replicas;
      };
      const auto found = std::ranges::find_if(few.ranked, of_kind);
      const auto best = std::ranges::find_if(brute.all, of_kind);
      ASSERT_NE(best, brute.all.end());
      ASSERT_NE(found, few.ranked.end()) << round;
      const auto fitting = std::ranges::find_if(in_half.all, of_kind);
      const double half_s = fitting == in_half.all.end() ? step(*best) : step(*fitting);
      EXPECT_LE(step(*found), step(*best)) << round << (replicas ? " hybrid" : " pipeline");
      EXPECT_GE(step(*found), std::min(step(*best), half_s)) << round << (replicas ? " hybrid" : " pipeline");
    }
    const auto several = std::ranges::find_if(few.ranked, [](const Candidate& candidate) { return candidate.plan.num_stages() > 1; });
    ++(has_replicas(several->plan) ? hybrid_first : pipeline_first);
    EXPECT_EQ(few.best_pipeline, several - few.ranked.begin());
  }
  EXPECT_GE(hybrid_first, testing::cases(3));
  EXPECT_GE(pipeline_first, testing::cases(3));
}

TEST(SearchPlans, FindsTheBestPipelineInHalfTheMemory) {
  std::mt19937 random(22);
  int found = 0;
  for (int round = 0; round < 40; ++round) {
    const CostModel cost(make_profile(testing::random_shape(random, 5, 2), testing::random_factors(random, 5)));
    SearchSpace space;
    space.devices = names(2);
    space.batch = 12;
    space.microbatch_counts = {1, 2, 3, 4, 6, 12};
    space.schedules = {"naive", "gpipe", "1f1b"};
    space.keep = 3;
    const SearchResult result = search_plans(space, cost);
    const std::int64_t half = cost.peak_bytes(make_plan(options_of({"sleep:0"}, 12, 5, "naive"))).front() / 2;
    SearchSpace within = space;
    within.memory_bytes = {half, half};
    BruteForce brute{within, cost, space.microbatch_counts};
    brute.all_cuts({1, 1}, 1, space.schedules);
    ASSERT_EQ(result.best_half_memory >= 0, !brute.all.empty());
    if (brute.all.empty()) continue;
    const Candidate& candidate = result.ranked[as_index(result.best_half_memory)];
    EXPECT_EQ(step(candidate), step(*std::ranges::min_element(brute.all, {}, step))) << round;
    for (const std::int64_t peak : candidate.prediction.peak_bytes) EXPECT_LE(peak, half);
    ++found;
  }
  EXPECT_GT(found, 20);
}

}  // namespace
}  // namespace mptune::planner

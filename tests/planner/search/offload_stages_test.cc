// Offloading in place of recomputation, in a search of made-up GPUs.
#include "planner/search/finish/offload_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include "planner/plan/offload.h"
#include "planner/plan/plan_words.h"
#include "planner/search/search.h"
#include "planner/search/search_result.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/offloading.h"
#include "tests/planner/search/spaces.h"
#include "tests/support/cases.h"

namespace mptune::planner {
namespace {

using testing::names;
using testing::with_host_copies;

// Two GPUs. A forward takes half of a backward, so that recomputation of everything makes a step a third longer.
Profile gpu_profile() {
  return testing::with_gpus(testing::make_profile({.layers = 8, .devices = 2, .sizes = {1, 2, 4, 8}, .bytes_per_second = 1e9}), 0);
}

Profile with_links(double bytes_per_second) {
  return with_host_copies(gpu_profile(), {1e-5, bytes_per_second}, {1e-5, bytes_per_second});
}

// gpipe, so that every micro-batch is in flight: four layers of 300 bytes each, eight micro-batches, keep 9600 bytes on a device beside
// 8000 of parameters and their gradients and what is received.
SearchSpace capped_space(std::int64_t cap) {
  SearchSpace space;
  space.devices = names(2);
  space.memory_bytes = {cap, cap};
  space.batch = 8;
  space.microbatch_counts = {8};
  space.schedules = {"gpipe"};
  space.stage_counts = {2};
  space.virtual_counts = {1};
  space.no_replicas = true;
  return space;
}

constexpr std::int64_t kCap = 15'000;

bool any_offloads(const SearchResult& result) {
  return std::ranges::any_of(result.ranked, [](const Candidate& candidate) { return planner::offloads(candidate.plan); });
}

bool recomputes_anything(const Plan& plan) {
  return std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.recompute.mode != Recompute::Mode::none; });
}

void expect_honest(const SearchSpace& space, const CostModel& cost, const SearchResult& result) {
  for (std::size_t k = 0; k < result.ranked.size(); ++k) {
    const Candidate& candidate = result.ranked[k];
    EXPECT_EQ(candidate.prediction, predict(candidate.plan, cost));
    EXPECT_NO_THROW(validate(candidate.plan, cost.layers(), "found"));
    for (std::size_t d = 0; d < candidate.plan.devices.size(); ++d) {
      const auto at = std::ranges::find(space.devices, candidate.plan.devices[d]) - space.devices.begin();
      const std::int64_t cap = space.memory_bytes.empty() ? 0 : space.memory_bytes[as_index(at)];
      EXPECT_TRUE(cap == 0 || candidate.prediction.peak_bytes[d] <= cap);
    }
    EXPECT_GE(candidate.prediction.step_s, result.ranked[k > 0 ? k - 1 : 0].prediction.step_s);
  }
  if (result.ranked.empty() || !planner::offloads(result.ranked.front().plan)) return;
  EXPECT_FALSE(result.complete);
  EXPECT_EQ(result.lower_bound_s, 0);
}

TEST(OffloadStages, FastCopiesReplaceRecomputation) {
  const SearchSpace space = capped_space(kCap);
  const CostModel without(gpu_profile()), with(with_links(1e8));
  const SearchResult recomputed = search_plans(space, without), offloaded = search_plans(space, with);
  ASSERT_FALSE(recomputed.ranked.empty());
  EXPECT_TRUE(recomputes_anything(recomputed.ranked.front().plan));
  ASSERT_TRUE(planner::offloads(offloaded.ranked.front().plan));
  expect_honest(space, with, offloaded);
  const double free_s = search_plans(capped_space(0), without).ranked.front().prediction.step_s;
  EXPECT_GT(recomputed.ranked.front().prediction.step_s, 1.05 * free_s);
  EXPECT_LT(offloaded.ranked.front().prediction.step_s, 1.02 * free_s) << "the copies are hidden";
  EXPECT_TRUE(std::ranges::any_of(offloaded.ranked, [&](const Candidate& one) { return one.plan == recomputed.ranked.front().plan; }));
}

TEST(OffloadStages, SlowCopiesDoNot) {
  const SearchSpace space = capped_space(kCap);
  const SearchResult without = search_plans(space, CostModel(gpu_profile())), with = search_plans(space, CostModel(with_links(1e4)));
  EXPECT_FALSE(any_offloads(with));
  EXPECT_EQ(with.ranked.front().plan, without.ranked.front().plan);
  EXPECT_EQ(with.lower_bound_s, without.lower_bound_s);
  EXPECT_EQ(with.complete, without.complete);
}

TEST(OffloadStages, NothingOffloadsWithoutCapsCopiesOrARuntimeThatDoes) {
  EXPECT_FALSE(any_offloads(search_plans(capped_space(kCap), CostModel(gpu_profile()))));
  EXPECT_FALSE(any_offloads(search_plans(capped_space(0), CostModel(with_links(1e8)))));
  SearchSpace space = capped_space(kCap);
  space.capabilities.offload = false;
  EXPECT_FALSE(any_offloads(search_plans(space, CostModel(with_links(1e8)))));
  space = capped_space(kCap);
  space.recompute = "all";
  EXPECT_FALSE(any_offloads(search_plans(space, CostModel(with_links(1e8)))));
}

TEST(OffloadStages, WhereNothingElseFitsThePlanFoundFits) {
  SearchSpace space = capped_space(kCap);
  space.recompute = "none";
  const CostModel without(gpu_profile());
  const SearchResult nothing = search_plans(space, without);
  EXPECT_TRUE(nothing.ranked.empty());
  EXPECT_GT(nothing.smallest_excess_bytes, 0);
  // However slow the copies.
  for (const double speed : {1e8, 1e4}) {
    const CostModel cost(with_links(speed));
    const SearchResult found = search_plans(space, cost);
    ASSERT_FALSE(found.ranked.empty());
    EXPECT_TRUE(planner::offloads(found.ranked.front().plan));
    EXPECT_EQ(found.smallest_excess_bytes, 0);
    EXPECT_EQ(found.best_pipeline, 0);
    expect_honest(space, cost, found);
  }
  space.memory_bytes = {5000, 5000};
  EXPECT_TRUE(search_plans(space, CostModel(with_links(1e8))).ranked.empty()) << "nothing can";
}

TEST(OffloadStages, NeverMakeTheAnswerSlower) {
  std::mt19937 random(21);
  int faster = 0;
  for (int round = 0; round < testing::cases(60); ++round) {
    SCOPED_TRACE(round);
    const Profile plain =
        testing::with_gpus(testing::make_profile(testing::random_shape(random, 5, 3), testing::random_factors(random, 5)), 0);
    const double speed = std::uniform_real_distribution<double>(1e5, 1e7)(random);
    const CostModel without(plain), with(with_host_copies(plain, {1e-5, speed}, {1e-5, speed}));
    SearchSpace space;
    space.devices = names(2 + round % 2);
    space.batch = 8;
    space.microbatch_counts = {4, 8};
    space.schedules = {"gpipe", "gpipe-late"};
    if (round % 2 == 1) space.schedules.insert(space.schedules.end(), {"1f1b", "zb1p", "interleaved"});
    space.memory_bytes.assign(space.devices.size(), 7000 + static_cast<std::int64_t>(random() % 8000));
    const SearchResult before = search_plans(space, without), after = search_plans(space, with);
    expect_honest(space, with, after);
    const auto step_s = [](const SearchResult& result) {
      return result.ranked.empty() ? std::numeric_limits<double>::infinity() : result.ranked.front().prediction.step_s;
    };
    EXPECT_TRUE(step_s(after) == step_s(before) || step_s(after) <= 0.98 * step_s(before)) << "smaller gains are within errors";
    EXPECT_TRUE(any_offloads(after) || after.ranked.empty() || after.ranked.front().plan == before.ranked.front().plan);
    faster += step_s(after) < step_s(before) ? 1 : 0;
  }
  EXPECT_TRUE(testing::kSanitized || faster > 1) << faster << " of all cases";
}

TEST(OffloadStages, OfAPlanAreThoseThatRecompute) {
  const CostModel cost(with_links(1e8));
  PlanOptions options = testing::options_of(names(2), 8, 8, "gpipe");
  options.microbatches = 8;
  options.recompute = "all";
  const Plan plan = make_plan(options);
  const OffloadSearch found = offload_recomputed({plan, predict(plan, cost)}, {0, 0}, cost);
  ASSERT_TRUE(found.faster);
  EXPECT_TRUE(found.faster->plan.stages[0].offload && found.faster->plan.stages[1].offload);
  EXPECT_FALSE(recomputes_anything(found.faster->plan));
  EXPECT_GT(found.simulated, 0);
  const OffloadSearch capped = offload_recomputed({plan, predict(plan, cost)}, {1, 1}, cost);
  EXPECT_FALSE(capped.faster);
}

TEST(MakePlan, OffloadsTheStagesThatAreNamed) {
  PlanOptions options = testing::options_of(names(3), 12, 6);
  EXPECT_FALSE(planner::offloads(make_plan(options)));
  options.offload = "0,2";
  const Plan plan = make_plan(options);
  EXPECT_TRUE(plan.stages[0].offload && !plan.stages[1].offload && plan.stages[2].offload);
  EXPECT_NE(describe(plan).find(", offloading stages 0,2"), std::string::npos) << describe(plan);
  options.recompute = "1";
  EXPECT_NO_THROW((void)make_plan(options));
  options.recompute = "all";
  EXPECT_THROW((void)make_plan(options), Error);
  options.recompute = "none";
  options.offload = "3";
  EXPECT_THROW((void)make_plan(options), Error);
  options.offload = "all";
  EXPECT_TRUE(std::ranges::all_of(make_plan(options).stages, &Stage::offload));
}

}  // namespace
}  // namespace mptune::planner

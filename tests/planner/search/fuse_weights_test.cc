// Fused weight gradients against every choice of group sizes on small plans.
#include "planner/search/finish/fuse_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "planner/plan/helping.h"
#include "planner/schedule/schedule.h"
#include "planner/search/search.h"
#include "planner/search/search_result.h"
#include "profiler/base/index.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

// A micro-batch of any size costs a fixed time. Layers fuse different shares, and each holds some bytes until its weight gradients.
Profile fusing_profile(std::mt19937& random, int layers, int devices) {
  const auto draw = [&](double least, double most) { return std::uniform_real_distribution<double>(least, most)(random); };
  testing::ProfileShape shape{.layers = layers, .devices = devices, .sizes = {1, 2, 4, 8, 16}, .fixed_s = draw(0, 0.004)};
  shape.action_s = draw(0, 1e-4);
  Profile profile = testing::make_profile(shape, testing::random_factors(random, layers));
  for (LayerCosts& layer : profile.classes[0].layers) {
    const double share = std::uniform_int_distribution<int>(0, 2)(random) * draw(0.3, 0.5), input = draw(0.3, 0.6);
    for (LayerCost& cost : layer.by_samples) {
      cost.backward_input = exactly(median(cost.backward) * input);
      cost.backward_weight = exactly(median(cost.backward) * (1 - input));
      const std::int64_t held = 350 * cost.samples;
      cost.split = SplitMemory{held, 0, 0, 50, 50, share, share > 0 ? held / 2 : 0};
    }
  }
  return profile;
}

Candidate plain_plan(std::mt19937& random, const CostModel& cost, int devices, int m) {
  constexpr const char* kSchedules[] = {"zb1p", "1f1b-late", "gpipe-late"};
  PlanOptions options = testing::options_of(testing::names(devices), m + static_cast<int>(random() % 3), cost.layers());
  options.schedule = kSchedules[random() % 3];
  options.microbatches = m;
  const Plan plan = make_plan(options);
  return {plan, predict(plan, cost)};
}

bool fits(const Prediction& prediction, const std::vector<std::int64_t>& caps) {
  for (std::size_t d = 0; d < caps.size(); ++d)
    if (caps[d] > 0 && prediction.peak_bytes[d] > caps[d]) return false;
  return true;
}

// All choices of sizes, one after another.
bool next_choice(std::vector<int>& sizes, int m) {
  for (int& size : sizes) {
    if (size < m) return size = std::min(2 * size, m), true;
    size = 1;
  }
  return false;
}

bool any_layer_fuses(const Stage& stage, const CostModel& cost) {
  bool any = false;
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
    any = any || cost.memory().split_memory(0, layer, 1).fused_share > 0;
  return any;
}

struct Fastest {
  double step_s = 0;
  double of_one_stage_s = 0;  ///< fused in one stage alone
};

Fastest all_choices(const Candidate& plain, const std::vector<std::int64_t>& caps, const CostModel& cost) {
  Fastest fastest{plain.prediction.step_s, plain.prediction.step_s};
  for (std::vector<int> sizes(plain.plan.stages.size(), 1); next_choice(sizes, plain.plan.num_microbatches());) {
    bool pays = true;
    for (std::size_t s = 0; s < sizes.size(); ++s) pays = pays && (sizes[s] == 1 || any_layer_fuses(plain.plan.stages[s], cost));
    if (!pays) continue;
    const Plan plan = with_fused_weights(plain.plan, sizes);
    validate_schedule(plan, "fused");
    const Prediction prediction = predict(plan, cost);
    if (!fits(prediction, caps)) continue;
    fastest.step_s = std::min(fastest.step_s, prediction.step_s);
    if (std::ranges::count(sizes, 1) + 1 == std::ssize(sizes)) fastest.of_one_stage_s = std::min(fastest.of_one_stage_s, prediction.step_s);
  }
  return fastest;
}

TEST(FuseWeights, IsNearlyAsFastAsTheBestOfAllChoices) {
  std::mt19937 random(51);
  int faster = 0, best = 0, refused_for_memory = 0;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const int devices = 2 + round % 2;
    const CostModel cost(fusing_profile(random, 6, devices));
    const Candidate plain = plain_plan(random, cost, devices, 2 + round % 5);
    std::vector<std::int64_t> caps(as_index(devices), 0);
    for (std::size_t d = 0; d < caps.size(); ++d)
      if (round % 3 == 0) caps[d] = plain.prediction.peak_bytes[d] + static_cast<std::int64_t>(random() % 1000);
    const Fastest fastest = all_choices(plain, caps, cost);
    const FusedSearch found = fuse_weights(plain, caps, cost);
    const double least_worth_s = 0.99 * plain.prediction.step_s;
    if (!found.faster) {
      EXPECT_GT(fastest.of_one_stage_s, least_worth_s);
      continue;
    }
    EXPECT_EQ(found.faster->prediction, predict(found.faster->plan, cost));
    EXPECT_LE(found.faster->prediction.step_s, least_worth_s);
    EXPECT_TRUE(fits(found.faster->prediction, caps));
    EXPECT_TRUE(fuses_weights(found.faster->plan));
    EXPECT_FALSE(is_exact(found.faster->plan));
    EXPECT_GE(found.faster->prediction.step_s, fastest.step_s - 1e-12);
    EXPECT_LE(found.faster->prediction.step_s, fastest.of_one_stage_s + 1e-12);
    ++faster;
    best += found.faster->prediction.step_s <= fastest.step_s + 1e-12 ? 1 : 0;
    refused_for_memory += fastest.step_s > all_choices(plain, std::vector<std::int64_t>(caps.size(), 0), cost).step_s ? 1 : 0;
  }
  EXPECT_GT(faster, 20);
  EXPECT_GT(best, faster * 3 / 4);
  EXPECT_GT(refused_for_memory, 0);
}

TEST(FuseWeights, GroupsStandWhereTheirLastWeightGradientsStood) {
  Plan plan = make_plan(testing::options_of({"a", "b"}, 5, 2));
  plan.actions[0] = actions_from_text("0F0 0F1 0F2 0F3 0F4 0I1 0I0 0W1 0W0 0I2 0W2 0B3 0I4 0W4", "");
  const Plan fused = with_fused_weights(plan, {2, 4});
  EXPECT_EQ(fused.actions[0], actions_from_text("0F0 0F1 0F2 0F3 0F4 0I1 0I0 0W0-1 0I2 0W2 0B3 0I4 0W4", ""));
  EXPECT_EQ(fused.actions[1], plan.actions[1]) << "whole backwards";
  EXPECT_EQ(with_fused_weights(plan, {1, 1}), plan);
}

TEST(FuseWeights, NothingIsFusedWhereNothingIsKnownToFuse) {
  std::mt19937 random(53);
  for (int round = 0; round < 20; ++round) {
    Profile profile = fusing_profile(random, 6, 2);
    for (LayerCosts& layer : profile.classes[0].layers)
      for (LayerCost& cost : layer.by_samples) cost.split->fused_share = -1;
    const CostModel cost(profile);
    const FusedSearch found = fuse_weights(plain_plan(random, cost, 2, 4), {0, 0}, cost);
    EXPECT_FALSE(found.faster.has_value());
    EXPECT_EQ(found.simulated, 0);
  }
}

SearchSpace space_of(int devices) {
  SearchSpace space;
  space.devices = testing::names(devices);
  space.batch = 8;
  space.replicas = std::vector<int>(as_index(devices), 1);
  space.microbatch_counts = {4, 8};
  space.schedules = {"1f1b", "zb1p", "1f1b-late"};
  return space;
}

TEST(SearchPlans, ProposesFusedWeightGradientsUnlessGradientsAreToBeExact) {
  std::mt19937 random(52);
  int fastest_fuses = 0;
  for (int round = 0; round < 8; ++round) {
    SCOPED_TRACE(round);
    const CostModel cost(fusing_profile(random, 5, 2));
    SearchSpace space = space_of(2);
    space.exact = true;
    const SearchResult exact = search_plans(space, cost);
    for (const Candidate& candidate : exact.ranked) EXPECT_TRUE(is_exact(candidate.plan));
    space.exact = false;
    const SearchResult result = search_plans(space, cost);
    EXPECT_TRUE(std::ranges::is_sorted(result.ranked, {}, [](const Candidate& candidate) { return candidate.prediction.step_s; }));
    for (const Candidate& candidate : exact.ranked)
      EXPECT_EQ(std::ranges::count(result.ranked, candidate.plan, &Candidate::plan), 1) << "fused plans displace no other";
    for (const Candidate& candidate : result.ranked) {
      if (!fuses_weights(candidate.plan)) continue;
      validate_schedule(candidate.plan, "proposed");
      EXPECT_EQ(candidate.prediction, predict(candidate.plan, cost));
    }
    const bool fuses = fuses_weights(result.ranked.front().plan);
    EXPECT_EQ(result.lower_bound_s, fuses ? 0 : exact.lower_bound_s);
    EXPECT_EQ(result.complete, !fuses && exact.complete);
    EXPECT_GT(result.ranked.at(as_index(result.best_pipeline)).plan.num_stages(), 1);
    fastest_fuses += fuses ? 1 : 0;
  }
  EXPECT_GT(fastest_fuses, 0);
}

}  // namespace
}  // namespace mptune::planner

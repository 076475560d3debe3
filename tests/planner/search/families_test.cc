#include "planner/search/space/choices.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "planner/plan/helping.h"
#include "planner/schedule/schedule.h"
#include "planner/search/bounds/family_bound.h"

#include "planner/simulate/schedule_costs.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/search/spaces.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::names;

// Of the plans of two stages, by name.
std::int64_t fastest_of_two_stages(const CostModel& cost, const std::string& schedule, int m) {
  double fastest = std::numeric_limits<double>::infinity();
  for (int cut = 1; cut < cost.layers(); ++cut) {
    PlanOptions options = testing::options_of(names(2), m, cost.layers(), schedule);
    options.cuts = {cut};
    options.microbatches = m;
    Plan plan = make_plan(options);
    schedule_plan(plan, schedule, cost);
    fastest = std::min(fastest, predict(plan, cost).step_s);
  }
  return std::llround(fastest * 1e9);
}

TEST(Families, CountsReplicasThatItDoesNotList) {
  const CostModel cost(make_profile({.layers = 6, .devices = 16}));
  SearchSpace space;
  space.devices = names(16);
  space.batch = 16;
  space.microbatch_counts = {16};
  space.schedules = {"gpipe"};
  Choices choices(space, cost, std::vector<std::int64_t>(16, 0));
  const std::vector<PlanFamily> families = choices.pipelines();
  // Shapes of 2 to 6 stages: C(15, 1) + .. + C(15, 5) = 4943, of which those left out have six stages of one layer each.
  EXPECT_EQ(choices.unlisted_plans(), 4943 - 4096);
  EXPECT_EQ(std::ranges::count_if(families, &PlanFamily::replicated), 4096);
  EXPECT_GT(choices.unlisted_bound_ns(), 0);
  space.stage_counts = {2, 3, 4, 5};
  Choices fewer(space, cost, std::vector<std::int64_t>(16, 0));
  (void)fewer.pipelines();
  EXPECT_EQ(fewer.unlisted_plans(), 0);
}

TEST(Families, LooksAtNoFurtherPlacementWhereThereIsNoFamily) {
  Profile profile = make_profile({.layers = 24, .devices = 14});
  for (LinkCost& link : profile.links) link.latency_s = 1e-6 * (link.source * 14 + link.destination + 1);
  const CostModel cost(profile);
  SearchSpace space;
  space.devices = names(14);
  space.batch = 16;
  space.microbatch_counts = {2};
  space.stage_counts = {14};
  space.schedules = {"naive"};
  Choices choices(space, cost, std::vector<std::int64_t>(14, 0));
  EXPECT_TRUE(choices.pipelines().empty()) << "of 14! placements";
  EXPECT_EQ(choices.unlisted_plans(), 0);
}

// Links that all differ: 8! placements of eight stages, 336 of three. No number of stages takes the room of another.
TEST(Families, ListsEveryNumberOfStagesOfUnequalDevices) {
  Profile profile = make_profile({.layers = 24, .devices = 8});
  for (LinkCost& link : profile.links) link.latency_s = 1e-6 * (link.source * 8 + link.destination + 1);
  const CostModel cost(profile);
  SearchSpace space;
  space.devices = names(8);
  space.batch = 32;
  Choices choices(space, cost, std::vector<std::int64_t>(8, 0));
  const std::vector<PlanFamily> families = choices.pipelines();
  EXPECT_GT(choices.unlisted_plans(), 0);
  for (int stages = 2; stages <= 8; ++stages)
    EXPECT_GT(std::ranges::count_if(families, [&](const PlanFamily& f) { return f.stages() == stages && !f.replicated(); }), 0) << stages;
  EXPECT_GT(std::ranges::count_if(families, [](const PlanFamily& f) { return f.virtual_stages == 2; }), 0);
  EXPECT_GT(std::ranges::count_if(families, &PlanFamily::replicated), 0);
}

TEST(FamilyBound, HoldsWherePartsOfABackwardTakeLessThanTheWhole) {
  Profile profile = make_profile({.layers = 6, .devices = 2});
  for (LayerCosts& layer : profile.classes[0].layers) {
    for (LayerCost& at : layer.by_samples) {
      at.backward_input = exactly(median(at.backward) * 0.3);
      at.backward_weight = exactly(median(at.backward) * 0.3);
    }
  }
  const CostModel cost(profile);
  FamilyBound bound(cost);
  for (const int m : {2, 4, 8}) {
    const std::int64_t split_ns = bound.of({{0}, {1}}, testing::ones(m), true).step_ns;
    EXPECT_LE(split_ns, fastest_of_two_stages(cost, "zb1p", m)) << m;
    EXPECT_GT(bound.of({{0}, {1}}, testing::ones(m), false).step_ns, split_ns) << m;
    EXPECT_LE(bound.of({{0}, {1}}, testing::ones(m), false).step_ns, fastest_of_two_stages(cost, "gpipe", m)) << m;
  }
}

// A GPU's step costs more to start than all the work takes on the other device, which a plan may use alone.
TEST(FamilyBound, HoldsForPlansThatLeaveDevicesOut) {
  Profile profile = make_profile({.layers = 4, .devices = 2});
  profile.classes.push_back(make_profile({.layers = 4, .step_s = 0.2}).classes[0]);
  profile.devices[1].device_class = 1;
  const CostModel cost(profile);
  FamilyBound bound(cost);
  for (const int m : {1, 2, 4}) {
    Plan alone = testing::scheduled(testing::stages_of(4, {1}, testing::ones(m)), "gpipe");
    EXPECT_LE(bound.of({{0, 1}}, testing::ones(m), true).step_ns, std::llround(predict(alone, cost).step_s * 1e9)) << m;
  }
}

std::int64_t bound_of(const Plan& plan, const CostModel& cost, bool splits) {
  std::vector<std::vector<int>> stages;
  for (const Stage& stage : plan.stages) stages.push_back(stage.devices);
  return FamilyBound(cost).of(stages, plan.microbatch_sizes, splits).step_ns;
}

TEST(FamilyBound, HoldsForStagesOnAnyDevicesInAnyOrder) {
  std::mt19937 random(46);
  for (int round = 0; round < 2'000; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 4)(random);
    const CostModel cost = testing::random_cost(random, 8, devices);
    const int split = round % 3;
    const Plan plan = testing::random_virtual_plan(random, 8, devices, split);
    EXPECT_LE(bound_of(plan, cost, split > 0), std::llround(predict(plan, cost).step_s * 1e9)) << round;
  }
}

TEST(FamilyBound, HoldsForSeveralStagesOnADevice) {
  std::mt19937 random(47);
  double closest = 0;
  for (int round = 0; round < 300; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 4)(random);
    const CostModel cost = testing::random_cost(random, 12, devices);
    for (const char* schedule : {"interleaved", "looped-bfs", "zbv", "v-half", "v-min", "list"}) {
      PlanOptions options = testing::options_of(names(devices), 16, 12, schedule);
      options.virtual_stages = 2;
      options.microbatches = std::uniform_int_distribution<int>(2, 8)(random);
      Plan plan = make_plan(options);
      testing::draw_stages(random, plan);
      schedule_plan(plan, schedule, cost);
      const std::int64_t bound_ns = bound_of(plan, cost, splits_backward(plan) || std::string_view(schedule) == "list");
      const std::int64_t step_ns = std::llround(predict(plan, cost).step_s * 1e9);
      EXPECT_LE(bound_ns, step_ns) << schedule << " " << round;
      closest = std::max(closest, static_cast<double>(bound_ns) / static_cast<double>(step_ns));
    }
  }
  EXPECT_GT(closest, 0.9) << "the bound is worth nothing";
}

// A GPU in some of them, whose gradients one device sums.
TEST(FamilyBound, HoldsForReplicasWhoseGradientsAreSummed) {
  std::mt19937 random(48);
  double closest = 0;
  for (int round = 0; round < 500; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 6)(random);
    testing::ProfileShape shape = testing::random_shape(random, 8, devices);
    shape.reduce_s_per_byte = std::uniform_real_distribution<double>(0, 1e-4)(random);
    const Profile profile = make_profile(shape, testing::random_factors(random, 8));
    const CostModel cost(round % 3 == 0 ? testing::with_gpus(profile, 1) : profile);
    const Plan plan = testing::random_plan(random, 8, devices);
    if (plan.num_stages() == 1) continue;
    const std::int64_t step_ns = std::llround(predict(plan, cost).step_s * 1e9);
    const std::int64_t bound_ns = bound_of(plan, cost, false);
    EXPECT_LE(bound_ns, step_ns) << round;
    EXPECT_LE(bound_of(plan, cost, true), bound_ns) << round;
    std::vector<int> all(as_index(devices));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_LE(FamilyBound(cost).of_one_stage_per_device(all, plan.microbatch_sizes), step_ns) << round;
    closest = std::max(closest, static_cast<double>(bound_ns) / static_cast<double>(step_ns));
  }
  EXPECT_GT(closest, 0.95) << "the bound is worth nothing";
}

// With split backwards in any order, where some devices may be left out.
TEST(FamilyBound, OfOneStagePerDeviceHoldsForAnyOrder) {
  std::mt19937 random(49);
  for (int round = 0; round < 500; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 5)(random);
    const CostModel cost = testing::random_cost(random, 8, devices);
    Plan plan = testing::random_plan(random, 8, devices);
    testing::RandomRows(random, plan, round % 3);
    if (plan.num_stages() == 1) continue;
    std::vector<int> all(as_index(devices));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_LE(FamilyBound(cost).of_one_stage_per_device(all, plan.microbatch_sizes), std::llround(predict(plan, cost).step_s * 1e9))
        << round;
  }
}

// Summing the gradients of all layers takes longer than their work.
TEST(FamilyBound, CountsWhatReplicasSum) {
  const CostModel cost(make_profile({.layers = 8, .devices = 4, .reduce_s_per_byte = 1e-4}));
  FamilyBound bound(cost);
  const std::int64_t replicated_ns = bound.of({{0, 1}, {2, 3}}, testing::ones(4), true).step_ns;
  EXPECT_GT(replicated_ns, 200'000'000) << "half of 0.1 s for each of 4 layers";
  const std::int64_t straight_ns = bound.of({{0}, {1}, {2}, {3}}, testing::ones(4), true).step_ns;
  EXPECT_LE(bound.of_one_stage_per_device({0, 1, 2, 3}, testing::ones(4)), straight_ns);
  EXPECT_GE(bound.of_one_stage_per_device({0, 1, 2, 3}, testing::ones(4)), straight_ns * 9 / 10);
}

// Until one of them is through forward, at most two of four devices work.
TEST(FamilyBound, KnowsThatDevicesWaitForTheFirstGradient) {
  const CostModel cost(make_profile({.layers = 32, .devices = 4}));
  Plan plan = testing::stages_of(32, std::vector<int>(8, 1), testing::ones(2));
  for (std::size_t s = 0; s < 8; ++s) plan.stages[s].devices = {static_cast<int>(s % 4)};
  const std::int64_t forward_ns = 32'000'000;
  EXPECT_GE(bound_of(plan, cost, true), (2 * 3 * forward_ns + 2 * forward_ns) / 4 * 999 / 1000);
}

// With few micro-batches no order keeps all devices busy.
TEST(FamilyBound, KnowsThatFewMicrobatchesLeaveDevicesIdle) {
  const CostModel cost(make_profile({.layers = 32, .devices = 4, .forward_s = 1e-5, .backward_s = 2e-5}));
  const auto over_work = [&](int m) {
    Plan plan = testing::stages_of(32, std::vector<int>(8, 1), testing::ones(m));
    for (std::size_t s = 0; s < 8; ++s) plan.stages[s].devices = {static_cast<int>(s % 4)};
    double work_ns = 0;
    for (int layer = 0; layer < 32; ++layer) work_ns += m * (cost.layer(0, layer, 1).forward_s + cost.layer(0, layer, 1).backward_s) * 1e9;
    return static_cast<double>(bound_of(plan, cost, false)) / (work_ns / 4);
  };
  EXPECT_GT(over_work(2), 1.9) << "two of four devices";
  EXPECT_GT(over_work(4), 1.2);
  EXPECT_LT(over_work(64), 1.05);
}

TEST(FamilyBound, HoldsWhereMoreBytesAreCopiedFaster) {
  Profile profile = make_profile({.layers = 4, .devices = 2});
  for (std::size_t l = 0; l < profile.edges.size(); ++l) profile.edges[l].bytes_per_sample = l == 1 ? 200 : 100;
  for (LinkCost& link : profile.links) {
    link.latency_s = 0.05;
    link.curve = {{100, 0.05}, {200, 1e-5}};
  }
  const CostModel cost(profile);
  FamilyBound bound(cost);
  for (const int m : {1, 2, 4})
    EXPECT_LE(bound.of({{0}, {1}}, testing::ones(m), false).step_ns, fastest_of_two_stages(cost, "gpipe", m)) << m;
}

}  // namespace
}  // namespace mptune::planner

#include "planner/simulate/schedule_costs.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <random>

#include "planner/schedule/schedule_info.h"
#include "planner/schedule/timing.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using testing::ones;
using testing::stages_of;

Plan in_map(const std::string& name, int devices, int virtual_stages, int m) {
  Plan plan = stages_of(8, std::vector<int>(as_index(devices * virtual_stages), 1), ones(m), devices);
  const std::vector<int> of = stage_devices(name, devices, virtual_stages);
  for (std::size_t s = 0; s < of.size(); ++s) plan.stages[s].devices = {of[s]};
  return plan;
}

CostModel random_model(std::mt19937& random, int devices) {
  testing::ProfileShape shape = testing::random_shape(random, 8, devices);
  shape.step_s = 0;
  shape.optimizer_s_per_byte = 0;
  return CostModel(testing::make_profile(shape, testing::random_factors(random, 8)));
}

// Both replay integers by the same rules: copies in the order of sending, one direction of a pair of devices at a time.
TEST(ScheduleCosts, ReplayOfSchedulesIsTheSimulators) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    const std::vector<std::pair<std::string, int>> kinds = {{"gpipe", 2}, {"1f1b", 1},  {"interleaved", 2}, {"zb1p", 1}, {"zb2p", 1},
                                                            {"zbv", 2},   {"v-min", 2}, {"dualpipe-v", 2},  {"list", 2}, {"eager-1f1b", 1}};
    const auto& [name, virtual_stages] = kinds[as_index(round) % kinds.size()];
    const int devices = 1 + round % 4;
    Plan plan = in_map(name, devices, virtual_stages, 1 + round % 7);
    for (Stage& stage : plan.stages)
      if (random() % 3 == 0) stage.recompute.mode = Recompute::Mode::all;
    // One device a stage of two layers: one of them.
    if (round % 2 == 0 && devices * virtual_stages <= 4)
      plan.stages[0].recompute = {Recompute::Mode::some, {static_cast<int>(random() % 2)}, {}};
    const CostModel cost = random_model(random, devices);
    const ScheduleCosts costs = schedule_costs(plan, cost);
    make_schedule(plan, name, &costs);
    const Operations operations = list_operations(plan, cost);
    std::int64_t end = 0;
    const Timing timing = time_operations(operations);
    for (std::size_t i = 0; i < operations.list.size(); ++i)
      if (operations.list[i].phase == Phase::actions) end = std::max(end, timing.start_ns[i] + timing.duration_ns[i]);
    EXPECT_EQ(time_schedule(plan, costs).end_ns, end) << name;
  }
}

// Also where the prices do not say all: links of one medium, devices that slow each other, unequal micro-batches, replicas on unlike
// devices.
TEST(ScheduleCosts, ListIsNoWorseInTheSimulator) {
  std::mt19937 random(4);
  int prices_misled = 0;
  for (int round = 0; round < 150; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 8, 4);
    if (round % 5 == 1) shape.bytes_per_second = 2e5;
    if (round % 5 == 2) shape.busy = 1.7;
    Profile profile = testing::make_profile(shape, testing::random_factors(random, 8));
    for (LinkCost& link : profile.links) link.medium = round % 5 == 1 ? 0 : -1;
    const CostModel cost(round % 5 == 4 ? testing::with_gpus(profile, 1) : profile);
    Plan plan = round % 2 == 0 ? stages_of(8, {1, 1, 1, 1}, ones(6)) : in_map("zbv", 3, 2, 6);
    if (round % 5 == 3) plan.microbatch_sizes = split_evenly(9, 6);
    if (round % 5 == 4) plan = stages_of(8, {1, 2, 1}, ones(7));
    schedule_plan(plan, "list", cost);
    EXPECT_EQ(plan.schedule, "list");
    ASSERT_NO_THROW(validate_schedule(plan, "list"));
    const double listed = predict(plan, cost).step_s;
    const ScheduleCosts costs = schedule_costs(plan, cost);
    make_schedule(plan, "list", &costs);
    prices_misled += predict(plan, cost).step_s > listed ? 1 : 0;
    for (const std::string& name : schedule_names()) {
      if (!missing_for(schedule_info(name), Layout(plan)).empty()) continue;
      make_schedule(plan, name, &costs);
      EXPECT_LE(listed, predict(plan, cost).step_s) << name << " " << round;
    }
  }
  EXPECT_GT(prices_misled, 5);
}

TEST(ScheduleCosts, ListStaysWithinWhatIsFreeWhereANamedScheduleIsFaster) {
  std::mt19937 random(9);
  int faster = 0;
  for (int round = 0; round < 40; ++round) {
    const CostModel cost = random_model(random, 4);
    Plan plan = stages_of(8, {1, 1, 1, 1}, split_evenly(13, 8));
    make_schedule(plan, "1f1b");
    const std::vector<std::int64_t> caps = cost.peak_bytes(plan);
    const ScheduleCosts costs = schedule_costs(plan, cost, caps);
    const std::int64_t excess = std::max<std::int64_t>(0, most_saved_bytes(plan, costs)[0] - costs.free_bytes[0]);
    schedule_plan(plan, "list", cost, caps);
    EXPECT_LE(most_saved_bytes(plan, costs)[0] - costs.free_bytes[0], excess) << round;
    const double listed = predict(plan, cost).step_s;
    make_schedule(plan, "zb2p", &costs);
    faster += predict(plan, cost).step_s < listed ? 1 : 0;
  }
  EXPECT_GT(faster, 5) << "with bytes that are not there";
}

TEST(ScheduleCosts, OnlyWhatIsRecomputedEarlyOverlapsTheWait) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 1, .action_s = 0.0001}));
  Plan plan = stages_of(4, {1}, ones(2));
  plan.stages[0].recompute = {Recompute::Mode::some, {0, 2, 3}, {1}};
  const StageCosts costs = schedule_costs(plan, cost).stages[0];
  EXPECT_EQ(costs.recompute_ns, 2'000'000) << "layers 2 and 3";
  EXPECT_EQ(costs.backward_ns, 11'100'000);
  plan.stages[0].recompute.layers = {1};
  EXPECT_EQ(schedule_costs(plan, cost).stages[0].recompute_ns, 0);
  EXPECT_EQ(schedule_costs(plan, cost).stages[0].backward_ns, 9'100'000);
}

TEST(ScheduleCosts, RefuseWhatTheProfileDoesNotKnow) {
  Profile profile = testing::make_profile({.layers = 4, .devices = 2});
  Plan plan = stages_of(4, {1, 1}, ones(2));
  EXPECT_THROW(schedule_plan(plan, "zigzag", CostModel(profile)), Error);
  EXPECT_THROW(schedule_plan(plan, "interleaved", CostModel(testing::make_profile({.layers = 4, .devices = 1}))), Error) << "a device";
  profile.links.pop_back();
  EXPECT_THROW((void)schedule_costs(plan, CostModel(profile)), Error) << "a link";
  EXPECT_THROW((void)predict(testing::scheduled(plan, "1f1b"), CostModel(profile)), Error);
}

TEST(ScheduleCosts, AreOfTheLargestMicrobatch) {
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  Plan plan = stages_of(4, {1, 1}, {3, 2});
  plan.stages[1].recompute.mode = Recompute::Mode::all;
  const ScheduleCosts costs = schedule_costs(plan, cost);
  EXPECT_EQ(costs.stages[0].forward_ns, 6'000'000);
  EXPECT_EQ(costs.stages[0].backward_ns, 12'000'000);
  EXPECT_EQ(costs.stages[1].backward_ns, 18'000'000);
  EXPECT_EQ(costs.stages[1].backward_input_ns + costs.stages[1].backward_weight_ns, 18'000'000);
  EXPECT_EQ(costs.stages[0].saved_activation_bytes, 2 * 300 * 3);
  EXPECT_EQ(costs.stages[1].saved_activation_bytes, 100 * 3);  // what it received
  EXPECT_TRUE(costs.free_bytes.empty());
}

// Micro-batch i meets the pair (i mod 2, i mod 3): all six pairs, the slow link from device 1 to 4 too, but with one micro-batch too few.
TEST(ScheduleCosts, CopiesAreOfEveryPairOfReplicasThatMeets) {
  Profile profile = testing::make_profile({.layers = 2, .devices = 5});
  for (LinkCost& link : profile.links)
    if (link.source == 1 && link.destination == 4) link.latency_s = 7;
  const CostModel cost(profile);
  const Plan six = stages_of(2, {2, 3}, ones(6));
  EXPECT_EQ(schedule_costs(six, cost).stages[0].send_output_ns, 7'000'000'000);
  const Plan five = stages_of(2, {2, 3}, ones(5));
  EXPECT_EQ(schedule_costs(five, cost).stages[0].send_output_ns, 0);
}

TEST(ScheduleCosts, KeepAllWhereAMicrobatchIsNotRecomputed) {
  const CostModel cost(testing::make_profile({.layers = 3, .devices = 1}));
  Plan plan = stages_of(3, {1}, ones(4));
  Recompute& recompute = plan.stages[0].recompute;
  recompute = {Recompute::Mode::some, {1}, {}};
  EXPECT_EQ(schedule_costs(plan, cost).stages[0].saved_activation_bytes, 2 * 300 + 100) << "and the input of layer 2";
  recompute.microbatches = {0, 2};
  EXPECT_EQ(schedule_costs(plan, cost).stages[0].saved_activation_bytes, 3 * 300);
  recompute.microbatches = {0, 1, 2, 3};
  EXPECT_EQ(schedule_costs(plan, cost).stages[0].saved_activation_bytes, 2 * 300 + 100);
}

// With a schedule's own peak as the cap, what is free is what it keeps, but for copies on their way: a few of 100 bytes each.
TEST(ScheduleCosts, FreeBytesAreWhatASchedulesPeakLeaves) {
  std::mt19937 random(6);
  for (int round = 0; round < 40; ++round) {
    const std::string name = round % 2 == 0 ? "1f1b" : "zb1p";
    Plan plan = stages_of(8, {1, 1, 1}, ones(9));
    const CostModel cost = random_model(random, 3);
    make_schedule(plan, name);
    const ScheduleCosts costs = schedule_costs(plan, cost, cost.peak_bytes(plan));
    const std::vector<std::int64_t> kept = most_saved_bytes(plan, costs);
    for (std::size_t d = 0; d < kept.size(); ++d)
      EXPECT_NEAR(static_cast<double>(costs.free_bytes[d]), static_cast<double>(kept[d]), 400) << name;
  }
  const CostModel cost(testing::make_profile({.layers = 4, .devices = 2}));
  const Plan plan = stages_of(4, {1, 1}, ones(2));
  EXPECT_EQ(schedule_costs(plan, cost, {0, 1}).free_bytes, (std::vector<std::int64_t>{ScheduleCosts::kNoLimit, 0}));
}

}  // namespace
}  // namespace mptune::planner

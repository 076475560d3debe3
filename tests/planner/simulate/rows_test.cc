// Rows of every kind that the validator accepts: split backwards, several stages on a device in any map, replicas, recomputation.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>

#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/replay.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/simulate/laws.h"
#include "tests/planner/simulate/oracle.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ones;
using testing::random_virtual_plan;
using testing::stages_of;

Profile with_split(Profile profile, double input_share, double weight_share) {
  for (LayerCosts& layer : profile.classes[0].layers) {
    for (LayerCost& cost : layer.by_samples) {
      cost.backward_input = exactly(median(cost.backward) * input_share);
      cost.backward_weight = exactly(median(cost.backward) * weight_share);
    }
  }
  return profile;
}

std::int64_t step_ns(const Plan& plan, const CostModel& cost) {
  return std::llround(predict(plan, cost).step_s * 1e9);
}

TEST(Rows, RandomRowsAgreeWithTheRulesWrittenDownAgain) {
  std::mt19937 random(21);
  for (int round = 0; round < 2000; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    Profile profile = make_profile(testing::random_shape(random, 9, devices), testing::random_factors(random, 9));
    if (round % 2 == 0) profile = with_split(profile, 0.5 + 0.1 * (round % 3), 0.55);
    if (round % 8 == 0) profile = testing::with_fused_shares(profile, random);
    if (round % 5 < 2) profile = testing::with_gpus(profile, as_index(round % 5));
    const CostModel cost(profile);
    Plan plan = random_virtual_plan(random, 9, devices, round % 3);
    if (round % 4 == 0) testing::fuse_some_weights(random, plan);
    ASSERT_NO_THROW(validate_schedule(plan, "random")) << round;
    ASSERT_NEAR(predict(plan, cost).step_s, testing::Oracle(plan, cost).step(), 1e-6) << round;
  }
}

TEST(Rows, TracesOfRandomRowsKeepTheLaws) {
  std::mt19937 random(22);
  for (int round = 0; round < 300; ++round) {
    const CostModel cost = testing::random_cost(random, 8, 3);
    const Plan plan = random_virtual_plan(random, 8, 3, round % 3);
    const Simulation simulation = simulate(plan, cost);
    testing::expect_lanes_free_of_overlap(simulation.trace);
    testing::expect_edges_kept(simulation.trace);
    testing::expect_all_layers(plan, simulation.trace);
    testing::expect_recomputation(plan, simulation.trace);
    testing::expect_copies(plan, simulation.trace);
    testing::expect_ranges(plan, simulation.trace);
    EXPECT_EQ(simulation.prediction, predict(plan, cost));
    for (const profiler::StepBreakdown& step : profiler::break_down(simulation.trace).steps) {
      for (std::size_t d = 0; d < step.devices.size(); ++d) {
        const profiler::DeviceBreakdown& device = step.devices[d];
        EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
        EXPECT_EQ(device.causes.total(), device.idle);
        EXPECT_NEAR(std::chrono::duration<double>(device.compute + device.overlap).count(), simulation.prediction.busy_s[d], 1.0001e-9);
      }
    }
  }
}

TEST(Rows, TheLowerBoundLiesBelowEveryOrderOfTheSameActions) {
  std::mt19937 random(23);
  double closest = 1e9;
  for (int round = 0; round < 3000; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    const CostModel cost = testing::random_cost(random, 8, devices);
    const int split = round % 2 == 0 ? 0 : 2;
    Plan plan = random_virtual_plan(random, 8, devices, split);
    const Prediction first = predict(plan, cost);
    ASSERT_LE(first.lower_bound_s, first.step_s) << round;
    closest = std::min(closest, first.step_s / first.lower_bound_s);
    testing::RandomRows(random, plan, split);
    const Prediction second = predict(plan, cost);
    ASSERT_LE(second.lower_bound_s, second.step_s) << round;
    ASSERT_EQ(first.lower_bound_s, second.lower_bound_s) << round;
  }
  EXPECT_LT(closest, 1.001);
}

// The best of all orders of a few actions, by trying them all.
class BestOrder {
 public:
  BestOrder(Plan plan, const CostModel& cost) : plan_(std::move(plan)), cost_(cost) {}

  std::int64_t step_ns() {
    for (std::vector<Action>& row : plan_.actions) std::ranges::sort(row, [](const Action& a, const Action& b) { return key(a) < key(b); });
    permute(0);
    return best_;
  }

 private:
  static std::tuple<int, char, int> key(const Action& a) { return {a.stage, static_cast<char>(a.kind), a.microbatch}; }

  // Every action behind what it needs of its own stage.
  static bool in_order(const std::vector<Action>& row) {
    for (std::size_t k = 0; k < row.size(); ++k) {
      for (std::size_t j = k + 1; j < row.size(); ++j) {
        const bool same = row[k].stage == row[j].stage && row[k].microbatch == row[j].microbatch;
        if (same && (row[j].kind == ActionKind::forward || row[k].kind == ActionKind::backward_weight)) return false;
      }
    }
    return true;
  }

  void permute(std::size_t device) {
    if (device == plan_.actions.size()) {
      try {
        validate_schedule(plan_, "order");
      } catch (const std::exception&) {
        return;
      }
      best_ = std::min(best_, mptune::planner::step_ns(plan_, cost_));
      return;
    }
    std::vector<Action>& row = plan_.actions[device];
    do {
      if (in_order(row)) permute(device + 1);
    } while (std::ranges::next_permutation(row, [](const Action& a, const Action& b) { return key(a) < key(b); }).found);
  }

  Plan plan_;
  const CostModel& cost_;
  std::int64_t best_ = std::numeric_limits<std::int64_t>::max();
};

TEST(Rows, TheLowerBoundIsNearTheBestOfAllOrders) {
  std::mt19937 random(24);
  double sum = 0;
  const int rounds = 30;
  for (int round = 0; round < rounds; ++round) {
    const CostModel cost(make_profile(testing::random_shape(random, 4, 2), testing::random_factors(random, 4)));
    Plan plan = stages_of(4, {1, 1}, split_evenly(7, round % 2 == 0 ? 3 : 2));
    testing::RandomRows(random, plan, round % 2 == 0 ? 0 : 2);
    const std::int64_t best = BestOrder(plan, cost).step_ns();
    const std::int64_t bound = std::llround(predict(plan, cost).lower_bound_s * 1e9);
    ASSERT_LE(bound, best) << round;
    sum += static_cast<double>(best) / static_cast<double>(bound);
  }
  EXPECT_LT(sum / rounds, 1.02);
}

// Two equal stages, forward, input and weight gradients of 1 ms each, free links; weight gradients fill the wait for gradients (ZB-H1):
//     dev 0  F0 F1 .. I0 W0 F2 I1 W1 F3 I2 W2 I3 W3          3m + 1 ms; whole backwards in 1F1B: 3m + 3 ms
//     dev 1  .. F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3
Plan zero_bubble(int m) {
  Plan plan = stages_of(2, {1, 1}, ones(m));
  plan.schedule = "zb";
  plan.actions.assign(2, {});
  const auto add = [&](int stage, ActionKind kind, int i) {
    if (i >= 0 && i < m) plan.actions[as_index(stage)].push_back({stage, kind, i});
  };
  add(0, ActionKind::forward, 0);
  for (int i = 0; i < m; ++i) {
    if (i == 0) add(0, ActionKind::forward, 1);
    add(0, ActionKind::backward_input, i);
    add(0, ActionKind::backward_weight, i);
    add(0, ActionKind::forward, i + 2);
    add(1, ActionKind::forward, i);
    add(1, ActionKind::backward_input, i);
    add(1, ActionKind::backward_weight, i - 1);
  }
  add(1, ActionKind::backward_weight, m - 1);
  return plan;
}

TEST(Rows, ZeroBubbleTakesTheTextbookTime) {
  for (int m = 1; m <= 20; ++m) {
    const CostModel cost(make_profile({.layers = 2, .devices = 2}));  // backward of 2 ms, halved
    const Plan plan = zero_bubble(m);
    validate_schedule(plan, "zb");
    // One micro-batch: only the last weight gradient runs beside the first stage's input gradient.
    EXPECT_EQ(step_ns(plan, cost), (m == 1 ? 5 : 3 * m + 1) * 1'000'000) << m;
    if (m > 1) {
      EXPECT_EQ(std::llround(predict(plan, cost).lower_bound_s * 1e9), (3 * m + 1) * 1'000'000) << "the bound is tight here";
    }
    EXPECT_EQ(step_ns(testing::scheduled(stages_of(2, {1, 1}, ones(m)), "1f1b"), cost), (3 * m + 3) * 1'000'000);
  }
}

// Two devices, four stages in a V, one micro-batch: no copy at the turn, and every stage runs once each way.
TEST(Rows, AVTurnsWithoutACopy) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2, .latency_s = 0.010}));
  Plan plan = stages_of(4, {1, 1, 1, 1}, {1}, 2);
  plan.stages[2].devices = {1};
  plan.stages[3].devices = {0};
  plan.actions = {actions_from_text("0F0 3F0 3B0 0B0", ""), actions_from_text("1F0 2F0 2B0 1B0", "")};
  plan.schedule = "v";
  validate_schedule(plan, "v");
  EXPECT_EQ(step_ns(plan, cost), 4 * 3'000'000 + 4 * 10'000'000);
  EXPECT_NEAR(predict(plan, cost).lower_bound_s, predict(plan, cost).step_s, 1e-12);
  const Trace trace = simulate(plan, cost).trace;
  EXPECT_EQ(trace.copies.size(), 4u);
}

TEST(Rows, RecomputationRunsOnceBeforeTheInputGradients) {
  const CostModel cost(make_profile({.layers = 1, .devices = 1}));
  Plan plan = stages_of(1, {1}, ones(2));
  plan.stages[0].recompute.mode = Recompute::Mode::all;
  plan.actions = {actions_from_text("0F0 0F1 0I0 0I1 0W0 0W1", "")};
  plan.schedule = "split";
  const Simulation simulation = simulate(plan, cost);
  EXPECT_EQ(std::llround(simulation.prediction.step_s * 1e9), 2 * (1 + 1 + 1 + 1) * 1'000'000);
  EXPECT_EQ(std::ranges::count(simulation.trace.events, EventKind::recompute, &Event::kind), 2);
  EXPECT_EQ(std::ranges::count(simulation.trace.events, EventKind::backward_input, &Event::kind), 2);
  EXPECT_EQ(std::ranges::count(simulation.trace.events, EventKind::backward_weight, &Event::kind), 2);
  std::vector<std::string> actions;
  for (const Event& range : simulation.trace.ranges)
    if (range.kind == EventKind::action) actions.push_back(simulation.trace.names[as_index(range.name)]);
  EXPECT_EQ(actions, (std::vector<std::string>{"0F0", "0F1", "0I0", "0I1", "0W0", "0W1"}));
}

TEST(Rows, FusedWeightGradientsAreOneAction) {
  const CostModel cost(make_profile({.layers = 1, .devices = 1, .action_s = 1e-3}));
  Plan plan = stages_of(1, {1}, ones(3));
  plan.actions = {actions_from_text("0F0 0F1 0F2 0I0 0I1 0I2 0W0 0W1 0W2", "")};
  const std::int64_t single = step_ns(plan, cost);
  plan.actions = {actions_from_text("0F0 0F1 0F2 0I0 0I1 0I2 0W0 0W1-2", "")};
  EXPECT_EQ(step_ns(plan, cost), single - 1'000'000);
  const Simulation simulation = simulate(plan, cost);
  std::vector<std::string> actions;
  for (const Event& range : simulation.trace.ranges)
    if (range.kind == EventKind::action) actions.push_back(simulation.trace.names[as_index(range.name)]);
  EXPECT_EQ(actions.back(), "0W1-2");
}

TEST(Rows, HalvesOfABackwardTakeAsLongAsTheWhole) {
  std::mt19937 random(25);
  for (int round = 0; round < 200; ++round) {
    testing::ProfileShape shape = testing::random_shape(random, 5, 1);
    shape.action_s = 0;
    if (round % 2 == 0) shape.busy = 1.5;
    const CostModel cost(make_profile(shape, testing::random_factors(random, 5)));
    Plan whole = stages_of(5, {1}, split_evenly(7, 3));
    Plan parts = whole;
    whole.actions = {actions_from_text("0F0 0F1 0F2 0B0 0B1 0B2", "")};
    parts.actions = {actions_from_text("0F0 0F1 0F2 0I0 0W0 0I1 0W1 0I2 0W2", "")};
    EXPECT_EQ(step_ns(whole, cost), step_ns(parts, cost));
    parts.actions = {actions_from_text("0F0 0F1 0F2 0I0 0I1 0W0-1 0I2 0W2", "")};
    EXPECT_EQ(step_ns(whole, cost), step_ns(parts, cost)) << "fused ones cost what single ones do where nothing is known to fuse";
  }
}

TEST(Rows, TheLimitingStageIsTheLargestOfTheBusiestDevice) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2}, {3, 1, 2, 5}));
  Plan plan = stages_of(4, {1, 1, 1, 1}, ones(2), 2);
  for (int s = 0; s < 4; ++s) plan.stages[as_index(s)].devices = {s % 2};
  make_schedule(plan, "gpipe");
  EXPECT_EQ(predict(plan, cost).limiting_stage, 3) << "6 on the second device, 5 on the first";
  plan.stages[2].devices = {1};
  plan.stages[3].devices = {0};
  make_schedule(plan, "gpipe");
  EXPECT_EQ(predict(plan, cost).limiting_stage, 3) << "8 on the first device";
}

// A recorded step: every piece of work took its own time, the lanes and inputs are as in the plan. What is recorded of it, its events'
// durations and the simulation's edges, is enough to time it again to the nanosecond.
TEST(Rows, ReplayOfANoisyStepWithItsOwnDurationsReproducesIt) {
  std::mt19937 random(26);
  std::uniform_real_distribution<double> noise(0.7, 1.5);
  for (int round = 0; round < 300; ++round) {
    const CostModel cost = testing::random_cost(random, 8, 3);
    const Plan plan = random_virtual_plan(random, 8, 3, round % 3);
    Operations operations = list_operations(plan, cost);
    for (Operation& operation : operations.list) {
      const double work = static_cast<double>(operation.alone_ns - operation.overhead_ns);
      operation.alone_ns = operation.overhead_ns + std::llround(work * noise(random));
      operation.extra_ns = 0;
    }
    const Timing timing = time_operations(operations);
    const Trace recorded = trace_of(plan, cost, operations, timing);
    std::vector<Nanoseconds> durations;
    for (const Event& event : recorded.events) durations.push_back(event.duration);
    Nanoseconds end{0};
    for (const Event& event : profiler::replay(recorded, durations).events) end = std::max(end, event.end());
    ASSERT_EQ(end.count(), timing.end_ns) << round;
  }
}

// dev 0  F0 copy F1 copy ..    dev 0  F0 F1
// dev 1          F0      F1    link      copy copy
TEST(Rows, ASenderThatCopiesComputesNothingMeanwhile) {
  Profile profile = make_profile({.layers = 2, .devices = 2, .forward_s = 0.001, .backward_s = 0.002, .latency_s = 0.010});
  const Plan one = testing::scheduled(stages_of(2, {1, 1}, ones(1)), "gpipe");
  const Plan two = testing::scheduled(stages_of(2, {1, 1}, ones(2)), "gpipe");
  const std::int64_t one_ns = step_ns(one, CostModel(profile)), two_ns = step_ns(two, CostModel(profile));
  for (LinkCost& link : profile.links) link.sender_copies = true;
  EXPECT_EQ(step_ns(one, CostModel(profile)), one_ns);
  // The second forward waits for the first copy, the second backward likewise: 1 and 2 ms.
  EXPECT_EQ(step_ns(two, CostModel(profile)), two_ns + 3'000'000);
  EXPECT_LE(predict(two, CostModel(profile)).lower_bound_s, predict(two, CostModel(profile)).step_s);
}

// Three devices whose links all go through one host: what takes a copy at a time is the medium.
TEST(Rows, LinksOfOneMediumQueue) {
  Profile profile = make_profile({.layers = 3, .devices = 3, .latency_s = 0.010});
  const Plan plan = testing::scheduled(stages_of(3, {1, 1, 1}, ones(1)), "naive");
  const Plan both = testing::scheduled(stages_of(3, {1, 1, 1}, ones(2)), "gpipe");
  const std::int64_t alone = step_ns(plan, CostModel(profile));
  const std::int64_t own = step_ns(both, CostModel(profile));
  for (LinkCost& link : profile.links) link.medium = 4;
  EXPECT_EQ(step_ns(plan, CostModel(profile)), alone) << "one copy at a time is all that naive has";
  // 0-1 of the first and the second micro-batch, then the first goes on to the third device, and so on: eight copies without a gap but for
  // the last device's forward and backward of its last micro-batch, and the ends.
  EXPECT_GT(step_ns(both, CostModel(profile)), own);
  EXPECT_GE(step_ns(both, CostModel(profile)), 8 * 10'000'000);
  EXPECT_GE(predict(both, CostModel(profile)).lower_bound_s, 0.080);
}

// A copy begins when it is ready and the medium is free; of those that wait, the one that was ready first goes first.
TEST(Rows, MediaServeInTheOrderOfArrival) {
  std::mt19937 random(28);
  for (int round = 0; round < 500; ++round) {
    Profile profile = make_profile(testing::random_shape(random, 8, 4), testing::random_factors(random, 8));
    for (LinkCost& link : profile.links) link.medium = std::uniform_int_distribution<int>(-1, 1)(random);
    const CostModel cost(profile);
    const Plan plan = random_virtual_plan(random, 8, 4, round % 3);
    const Operations operations = list_operations(plan, cost);
    const Timing timing = time_operations(operations);
    std::map<int, std::vector<std::size_t>> lanes;
    for (std::size_t i = 0; i < operations.list.size(); ++i) {
      ASSERT_LT(operations.list[i].input, static_cast<int>(i));
      if (operations.list[i].kind == EventKind::copy) lanes[operations.list[i].lane].push_back(i);
    }
    for (const auto& [lane, copies] : lanes) {
      std::int64_t ready = 0;
      std::int64_t free = 0;
      for (const std::size_t i : copies) {
        const auto input = as_index(operations.list[i].input);
        const std::int64_t arrival = timing.start_ns[input] + timing.duration_ns[input];
        ASSERT_GE(arrival, ready) << round;
        ASSERT_EQ(timing.start_ns[i], std::max(arrival, free)) << round;
        ready = arrival;
        free = timing.start_ns[i] + timing.duration_ns[i];
      }
    }
    const Simulation simulation = simulate(plan, cost);
    EXPECT_LE(simulation.prediction.lower_bound_s, simulation.prediction.step_s);
    testing::expect_edges_kept(simulation.trace);
    testing::expect_ranges(plan, simulation.trace);
    testing::expect_all_layers(plan, simulation.trace);
    Nanoseconds end{0};
    for (const Event& event : simulation.trace.events) end = std::max(end, event.end());
    EXPECT_EQ(end.count(), timing.end_ns) << round;
    // Media of one link each are the links themselves.
    int number = 0;
    for (LinkCost& link : profile.links) link.medium = number++;
    const std::int64_t apart = step_ns(plan, CostModel(profile));
    for (LinkCost& link : profile.links) link.medium = -1;
    EXPECT_EQ(apart, step_ns(plan, CostModel(profile)));
  }
}

TEST(Rows, AFasterLinkIsNeverSlowerForFixedRows) {
  std::mt19937 random(27);
  for (int round = 0; round < 300; ++round) {
    Profile profile = make_profile(testing::random_shape(random, 8, 3), testing::random_factors(random, 8));
    const Plan plan = random_virtual_plan(random, 8, 3, round % 3);
    const std::int64_t slow = step_ns(plan, CostModel(profile));
    profile.links[as_index(round) % profile.links.size()].bytes_per_second *= 3;
    const std::int64_t fast = step_ns(plan, CostModel(profile));
    EXPECT_LE(fast, slow);
    for (LinkCost& link : profile.links) link.latency_s /= 2;
    EXPECT_LE(step_ns(plan, CostModel(profile)), fast);
  }
}

}  // namespace
}  // namespace mptune::planner

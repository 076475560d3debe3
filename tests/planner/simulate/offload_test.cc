// The simulated step of plans that offload, against times by hand and a simulator that knows nothing of the planner's.
#include "planner/plan/offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/cost/stage_need.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "tests/planner/offloading.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/simulate/laws.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ones;
using testing::scheduled;
using testing::stages_of;
using testing::with_host_copies;
using testing::with_offload;

// Event by event, in whole nanoseconds: asks every action and copy again and again when it starts, until no answer is missing.
class SlowOffload {
 public:
  SlowOffload(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost), away_(plan.devices.size()) {
    for (std::size_t d = 0; d < away_.size(); ++d) away_[d] = planner::offloaded(plan, static_cast<int>(d));
  }

  std::int64_t end() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t d = 0; d < away_.size(); ++d) changed |= row(d);
    }
    std::int64_t last = 0;
    for (const auto& [key, time] : ended_) last = std::max(last, time);
    return last;
  }

 private:
  enum What { act, out, in, send };
  using Key = std::tuple<What, int, int, int>;  // act, out, in: device and position; send: to stage, micro-batch, 1 of a gradient

  static constexpr std::int64_t kUnknown = -1;
  [[nodiscard]] std::int64_t ended(const Key& key) const {
    const auto found = ended_.find(key);
    return found == ended_.end() ? kUnknown : found->second;
  }

  bool row(std::size_t d) {
    const int device = static_cast<int>(d);
    for (std::size_t q = 0; q < plan_.actions[d].size(); ++q) {
      const int at = static_cast<int>(q);
      if (ended({act, device, at, 0}) != kUnknown) continue;
      const std::int64_t start = start_of(device, at);
      if (start == kUnknown) return false;
      fetch(device, at, start);
      run(device, at, start);
      return true;
    }
    return false;
  }

  std::int64_t start_of(int device, int at) const {
    const Action& action = plan_.actions[as_index(device)][as_index(at)];
    std::vector<std::int64_t> waits{0};
    if (at > 0) waits.push_back(ended({act, device, at - 1, 0}));
    const bool forward = action.kind == ActionKind::forward;
    if (forward && action.stage > 0) waits.push_back(ended({send, action.stage, action.microbatch, 0}));
    if (!forward && action.kind != ActionKind::backward_weight && action.stage + 1 < plan_.num_stages())
      waits.push_back(ended({send, action.stage, action.microbatch, 1}));
    for (const planner::Offloaded& away : away_[as_index(device)]) {
      if (away.freed() == at) waits.push_back(ended({out, device, away.forward, 0}));
      if (away.backward == at) waits.push_back(ended({in, device, away.forward, 0}));
    }
    return std::ranges::count(waits, kUnknown) > 0 ? kUnknown : std::ranges::max(waits);
  }

  // A lane of copies is free when the last one has ended.
  void copy(int device, const planner::Offloaded& away, bool to_host, std::int64_t start) {
    const int samples = plan_.microbatch_sizes[as_index(away.microbatch)];
    const std::int64_t bytes = offloaded_bytes(cost_, device, plan_.stages[as_index(away.stage)], samples);
    std::int64_t& free = free_[{to_host ? -1 : -2, device}];
    free = std::max(free, start) + to_ns(cost_.copies().host_seconds(device, to_host, bytes));
    ended_[{to_host ? out : in, device, away.forward, 0}] = free;
    delays_[device] += to_ns(cost_.copies().host_delay_seconds(device, to_host, bytes));
  }

  void fetch(int device, int at, std::int64_t start) {
    for (const planner::Offloaded& away : away_[as_index(device)])
      if (away.fetched() == at) copy(device, away, false, std::max(start, ended({out, device, away.forward, 0})));
  }

  void run(int device, int at, std::int64_t start) {
    const Action& action = plan_.actions[as_index(device)][as_index(at)];
    const Stage& stage = plan_.stages[as_index(action.stage)];
    const int samples = plan_.microbatch_sizes[as_index(action.microbatch)];
    std::int64_t now = start + to_ns(cost_.action_seconds(device)) + std::exchange(delays_[device], 0);
    for (int layer = stage.first_layer; layer < stage.last_layer; ++layer)
      now += to_ns(seconds(action.kind, cost_.layer(device, layer, samples)));
    ended_[{act, device, at, 0}] = now;
    for (const planner::Offloaded& away : away_[as_index(device)])
      if (away.forward == at) copy(device, away, true, now);
    if (action.kind != ActionKind::backward_weight) pass_on(device, action, now);
  }

  static double seconds(ActionKind kind, const LayerTimes& times) {
    if (kind == ActionKind::forward) return times.forward_s;
    if (kind == ActionKind::backward) return times.backward_s;
    return kind == ActionKind::backward_input ? times.backward_input_s : times.backward_weight_s;
  }

  void pass_on(int device, const Action& action, std::int64_t now) {
    const bool gradient = action.kind != ActionKind::forward;
    const int to = action.stage + (gradient ? -1 : 1);
    if (to < 0 || to == plan_.num_stages()) return;
    const int other = device_of(plan_.stages[as_index(to)], action.microbatch);
    const int cut = plan_.stages[as_index(std::max(action.stage, to))].first_layer;
    const std::int64_t bytes = cost_.boundary_bytes(cut, plan_.microbatch_sizes[as_index(action.microbatch)], gradient);
    std::int64_t end = now;
    if (other != device) {
      std::int64_t& free = free_[{device, other}];
      end = free = std::max(free, now) + to_ns(cost_.copy_seconds(device, other, bytes));
    }
    ended_[{send, to, action.microbatch, gradient ? 1 : 0}] = end;
  }

  const Plan& plan_;
  const CostModel& cost_;
  std::vector<std::vector<planner::Offloaded>> away_;
  std::map<Key, std::int64_t> ended_;
  std::map<std::pair<int, int>, std::int64_t> free_;
  std::map<int, std::int64_t> delays_;  // of each device's next action
};

// One device, gpipe, four micro-batches of one sample: forward 1, backward 2 ms. 300 bytes are copied in 3 ms out and 1 ms back.
//
//     ms      0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19
//     row     F0 F1 .  .  F2 .  .  F3 .  .  B0=== .  B1=== B2=== B3===
//     out        0======= 1======= 2======= 3=======
//     back                         0=       1=       2=    3=
TEST(SimulateOffload, OneDeviceByHand) {
  const Profile profile = with_host_copies(make_profile({.layers = 1, .devices = 1}), {0, 1e5}, {0, 3e5});
  const CostModel cost(profile);
  const Plan plain = scheduled(stages_of(1, {1}, ones(4)), "gpipe");
  ASSERT_NEAR(predict(plain, cost).step_s, 0.012, 1e-9);
  const Plan plan = with_offload(plain);
  ASSERT_EQ(planner::offloaded(plan, 0).size(), 4u);
  EXPECT_NEAR(predict(plan, cost).step_s, 0.019, 1e-9);
  // The copies to the host, from the first forward on, and what follows the last of them.
  EXPECT_NEAR(lower_bound_seconds(plan, cost), 0.001 + 4 * 0.003 + 0.001 + 0.002, 1e-9);
}

// Four forwards and backwards of 1 and 2 ms, and a copy of 3 and one of 1 ms for each of them, one after the other.
TEST(SimulateOffload, ADeviceThatCopiesComputesNothingMeanwhile) {
  const CostModel cost(with_host_copies(make_profile({.layers = 1, .devices = 1}), {0, 1e5, true}, {0, 3e5, true}));
  EXPECT_FALSE(cost.copies().can_offload(0)) << "nothing is hidden";
  const Plan plan = with_offload(scheduled(stages_of(1, {1}, ones(4)), "gpipe"));
  EXPECT_NEAR(predict(plan, cost).step_s, 0.028, 1e-9);
  EXPECT_NEAR(lower_bound_seconds(plan, cost), 0.028, 1e-9);
  const Trace trace = simulate(plan, cost).trace;
  testing::expect_lanes_free_of_overlap(trace);
  EXPECT_EQ(trace.steps.front().end.count(), to_ns(0.028));
}

TEST(SimulateOffload, FastCopiesTakeNoTime) {
  const CostModel cost(with_host_copies(make_profile({.layers = 6, .devices = 3}), {0, 1e9}, {0, 1e9}));
  const Plan plain = scheduled(stages_of(6, {1, 1, 1}, ones(8)), "1f1b");
  EXPECT_NEAR(predict(with_offload(plain), cost).step_s, predict(plain, cost).step_s, 1e-9);
}

TEST(SimulateOffload, ASlowCopyBackDelaysItsBackward) {
  const CostModel cost(with_host_copies(make_profile({.layers = 1, .devices = 1}), {0, 1e9}, {0.1, 1e9}));
  const Plan plan = with_offload(scheduled(stages_of(1, {1}, ones(4)), "gpipe"));
  // The first copy back begins with the last forward, each other one with the backward before.
  EXPECT_NEAR(predict(plan, cost).step_s, 0.003 + 4 * 0.1 + 0.002, 1e-5);
}

TEST(SimulateOffload, NeedsCopiesToTheHost) {
  const CostModel cost(make_profile({.layers = 2, .devices = 2}));
  EXPECT_FALSE(cost.copies().can_offload(0));
  EXPECT_THROW((void)cost.copies().host_seconds(0, true, 1), Error);
  const Plan plan = scheduled(stages_of(2, {1, 1}, ones(6)), "gpipe");
  EXPECT_NO_THROW((void)predict(plan, cost));
  EXPECT_THROW((void)predict(with_offload(plan), cost), Error);
}

TEST(SimulateOffload, CopiesAreInTheTraceBetweenDeviceAndHost) {
  const CostModel cost(with_host_copies(make_profile({.layers = 1, .devices = 1}), {0, 1e5}, {0, 3e5}));
  const Plan plan = with_offload(scheduled(stages_of(1, {1}, ones(4)), "gpipe"));
  const Trace trace = simulate(plan, cost).trace;
  std::map<std::pair<int, int>, int> copies;
  for (const Event& event : trace.events) {
    if (event.kind != EventKind::copy) continue;
    const Copy& copy = trace.copies[as_index(event.detail)];
    EXPECT_EQ(copy.bytes, 300);
    EXPECT_NE(event.lane, kComputeLane);
    ++copies[{copy.source, copy.destination}];
  }
  EXPECT_EQ(copies, (std::map<std::pair<int, int>, int>{{{0, -1}, 4}, {{-1, 0}, 4}}));
  EXPECT_EQ(trace.steps.front().end.count(), to_ns(predict(plan, cost).step_s));
}

void expect_right_order(const Operations& operations) {
  for (std::size_t i = 0; i < operations.list.size(); ++i) EXPECT_LT(operations.list[i].input, static_cast<int>(i));
  for (const Wait& wait : operations.waits) EXPECT_LT(wait.until, wait.operation);
  EXPECT_TRUE(std::ranges::is_sorted(operations.waits, {}, &Wait::operation));
}

TEST(SimulateOffload, AgreesWithTheSlowTruth) {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(random); };
  int away = 0, longer = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    testing::ProfileShape shape = testing::random_shape(random, 6, 3);
    shape.optimizer_s_per_byte = shape.reduce_s_per_byte = shape.step_s = 0;
    shape.sender_copies = false;
    const Profile profile = make_profile(shape, testing::random_factors(random, 6));
    const CostModel cost(with_host_copies(profile, {draw(0, 1e-4), draw(3e4, 1e6), false, draw(0, 1e-6)},
                                          {draw(0, 1e-4), draw(3e4, 1e6), false, draw(0, 1e-6)}));
    Plan plan = testing::random_virtual_plan(random, 6, 3, round % 3);
    for (Stage& stage : plan.stages) stage.recompute = {};
    const double plain_s = predict(plan, cost).step_s;
    plan = with_offload(plan, &random);
    const Operations operations = list_operations(plan, cost);
    expect_right_order(operations);
    const std::int64_t end_ns = time_operations(operations).end_ns;
    EXPECT_EQ(end_ns, SlowOffload(plan, cost).end());
    EXPECT_LE(lower_bound_ns(plan, operations), end_ns);
    EXPECT_EQ(simulate(plan, cost).trace.steps.front().end.count(), end_ns);
    for (int d = 0; d < 3; ++d) away += static_cast<int>(planner::offloaded(plan, d).size());
    longer += predict(plan, cost).step_s > plain_s ? 1 : 0;
  }
  EXPECT_GT(away, 300);
  EXPECT_GT(longer, 50);
}

TEST(SimulateOffload, WithoutItNothingChanges) {
  std::mt19937 random(9);
  for (int round = 0; round < 100; ++round) {
    const Profile profile = make_profile(testing::random_shape(random, 6, 3), testing::random_factors(random, 6));
    const CostModel without(profile), with(with_host_copies(profile, {1e-4, 1e5}, {1e-4, 1e5}));
    const Plan plan = testing::random_virtual_plan(random, 6, 3, round % 3);
    EXPECT_EQ(list_operations(plan, with).lanes, list_operations(plan, without).lanes);
    EXPECT_EQ(predict(plan, with), predict(plan, without));
    EXPECT_EQ(simulate(plan, with).trace, simulate(plan, without).trace);
  }
}

TEST(SimulateOffload, TracesKeepTheLawsOfAllTraces) {
  std::mt19937 random(10);
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const Profile profile = make_profile(testing::random_shape(random, 6, 3), testing::random_factors(random, 6));
    const CostModel cost(with_host_copies(profile, {1e-5, 3e5}, {1e-5, 3e5}));
    const Plan plan = with_offload(testing::random_virtual_plan(random, 6, 3, round % 3));
    const Trace trace = simulate(plan, cost).trace;
    testing::expect_lanes_free_of_overlap(trace);
    testing::expect_edges_kept(trace);
    testing::expect_all_layers(plan, trace);
    const profiler::Breakdown breakdown = profiler::break_down(trace);
    for (const profiler::DeviceBreakdown& device : breakdown.steps.at(0).devices) {
      EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
      EXPECT_EQ(device.causes.total(), device.idle);
    }
  }
}

// Links that share a medium put the operations in the order of time.
TEST(SimulateOffload, BoundsHoldWhereCopiesQueueAndStagesRecompute) {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Profile profile = make_profile(testing::random_shape(random, 6, 3), testing::random_factors(random, 6));
    for (LinkCost& link : profile.links) link.medium = round % 2 - 1;
    const CostModel cost(with_host_copies(profile, {1e-5, 1e6}, {1e-5, 1e6}));
    const Plan plain = testing::random_virtual_plan(random, 6, 3, round % 3);
    const Plan plan = with_offload(plain, &random);
    validate(plan, 6, "random");
    const Operations operations = list_operations(plan, cost);
    expect_right_order(operations);
    const Timing timing = time_operations(operations);
    EXPECT_LE(lower_bound_ns(plan, operations), timing.end_ns + operations.step_ns);
    std::map<int, std::int64_t> free;
    for (std::size_t i = 0; i < operations.list.size(); ++i) {
      EXPECT_GE(timing.start_ns[i], free[operations.list[i].lane]);
      free[operations.list[i].lane] = timing.start_ns[i] + timing.duration_ns[i];
    }
  }
}

}  // namespace
}  // namespace mptune::planner

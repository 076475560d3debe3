// Idle devices that help: against a slow oracle, and what every simulated trace of such plans keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <utility>

#include "planner/plan/helping.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/operations.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "profiler/trace/analyze/breakdown.h"
#include "profiler/trace/analyze/critical_path.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/simulate/helping_oracle.h"
#include "tests/planner/simulate/laws.h"

namespace mptune::planner {
namespace {

using testing::cpu_names;
using testing::HelpingOracle;

// Layers of few whole lengths, so that many things happen at the same time; some without weights.
Profile coarse_profile(std::mt19937& random, int layers, const std::vector<std::string>& names) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  testing::ProfileShape shape;
  shape.layers = layers;
  shape.devices = static_cast<int>(names.size());
  shape.sizes = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  shape.action_s = draw(0, 2) * 1e-6;
  shape.latency_s = draw(0, 2) * 1e-6;
  Profile profile = testing::make_profile(shape);
  for (LayerCosts& layer : profile.classes.front().layers) {
    const int forward = draw(0, 3);
    const int input = draw(0, 3);
    const int weight = draw(0, 3);
    for (LayerCost& cost : layer.by_samples) {
      cost.forward = exactly(forward * cost.samples * 1e-6);
      cost.backward_input = exactly(input * cost.samples * 1e-6);
      cost.backward_weight = exactly(weight * cost.samples * 1e-6);
      cost.backward = exactly((input + weight) * cost.samples * 1e-6);
    }
  }
  return testing::with_names(std::move(profile), names);
}

Plan helped(Plan plan, const std::vector<std::string>& names) {
  plan.devices = names;
  plan.options.idle_devices_help = true;
  return plan;
}

Plan without_recompute(Plan plan) {
  for (Stage& stage : plan.stages) stage.recompute = {};
  return plan;
}

TEST(HelpingGroups, AreCpuDevicesOfEquallyManyCores) {
  EXPECT_EQ(helping_groups({"cpu:0", "cpu:2-3", "sleep:1", "cuda:0", "cpu:1", "cpu:4-5", "elsewhere"}),
            (std::vector<int>{1, 2, -1, -1, 1, 2, -1}));
  EXPECT_EQ(helping_groups({"cpu:0-1", "cpu:2", "sleep:0", "cpu:4-5"}, {1, 1, 1, 2}), (std::vector<int>{1, 1, -1, 2}));
  const std::vector<int> of_ranks = helping_groups({"0@cpu:0", "1@cpu:0", "0@cpu:1", "1@cpu:2-3"});
  EXPECT_EQ(of_ranks[0], of_ranks[2]);
  EXPECT_EQ(std::set<int>(of_ranks.begin(), of_ranks.end()).size(), 3U);
  EXPECT_TRUE(all_can_help({"cpu:0", "cpu:1"}));
  EXPECT_FALSE(all_can_help({"cpu:0"})) << "nobody to help";
  EXPECT_FALSE(all_can_help({"cpu:0", "cpu:2-3"}));
  EXPECT_FALSE(all_can_help({"sleep:0", "sleep:1"}));
}

TEST(Helping, AgreesWithTheRulesWrittenDownAgain) {
  std::mt19937 random(31);
  for (int round = 0; round < 1500; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    std::vector<std::string> names = cpu_names(devices);
    if (round % 4 == 0) names.back() = "cpu:4-5";
    if (round % 4 == 1) names.back() = "sleep:0";
    const CostModel cost(coarse_profile(random, 7, names));
    Plan plan = helped(without_recompute(testing::random_virtual_plan(random, 7, devices, 1 + round % 2)), names);
    if (round % 3 == 0) testing::fuse_some_weights(random, plan);
    HelpingOracle oracle(plan, cost, helping_groups(names));
    ASSERT_EQ(std::llround(predict(plan, cost).step_s * 1e9), oracle.end_ns()) << round;
    ASSERT_TRUE(oracle.all_done());
  }
}

// dev 0  F . . . . I W1 W1    the long one of stage 1's weights
// dev 1    . F I W1           the short one
TEST(Helping, APictureByHand) {
  testing::ProfileShape shape;
  shape.layers = 4;
  Profile profile = testing::with_names(testing::make_profile(shape), cpu_names(2));
  for (LayerCosts& layer : profile.classes.front().layers) {
    for (LayerCost& cost : layer.by_samples) {
      cost.forward = cost.backward_input = exactly(1e-3);
      cost.backward_weight = exactly(0.0);
    }
  }
  for (LayerCost& cost : profile.classes.front().layers[2].by_samples) cost.backward_weight = exactly(4e-3);
  for (LayerCost& cost : profile.classes.front().layers[3].by_samples) cost.backward_weight = exactly(5e-3);
  Plan plan = helped(testing::stages_of(4, {1, 1}, {1}), cpu_names(2));
  plan.schedule = "by hand";
  plan.actions = {actions_from_text("0F0 0I0 0W0", "test"), actions_from_text("1F0 1I0 1W0", "test")};
  const CostModel cost(profile);
  // Stage 1's input gradients end at 6. Device 1 takes the 4 ms, to 10. Device 0 has its own input gradients to do, to 8; its own weights
  // take no time. Then it takes the 5 ms, to 13.
  EXPECT_DOUBLE_EQ(predict(plan, cost).step_s, 13e-3);
  Plan alone = plan;
  alone.options.idle_devices_help = false;
  EXPECT_DOUBLE_EQ(predict(alone, cost).step_s, 15e-3);
  const Trace trace = simulate(plan, cost).trace;
  int ranges = 0;
  for (const Event& range : trace.ranges) {
    if (trace.names[as_index(range.name)] != "1W0") continue;
    ++ranges;
    EXPECT_EQ(trace.tags[as_index(range.tag)].stage, 1);
    EXPECT_EQ(range.start, range.device == 0 ? Nanoseconds{8'000'000} : Nanoseconds{6'000'000});
  }
  EXPECT_EQ(ranges, 2) << "a part on each device";
}

// Every layer's weight gradients once, on a device of the owner's group, after its input gradients and in the order of the owner's row.
void expect_weights(const Plan& plan, const CostModel& cost, const Trace& trace) {
  const std::vector<int> groups = helping_groups(plan.devices);
  std::map<std::tuple<int, int>, Event> weights;  // by micro-batch and layer
  std::map<std::tuple<int, int>, Nanoseconds> inputs;
  for (const Event& event : trace.events) {
    const Tag& tag = trace.tags.at(as_index(event.tag));
    if (event.kind == EventKind::backward_input) inputs[{tag.microbatch, tag.stage}] = event.end();
    if (event.kind != EventKind::backward_weight) continue;
    EXPECT_TRUE(weights.emplace(std::tuple(tag.microbatch, tag.layer), event).second);
    const int owner = device_of(plan.stages[as_index(tag.stage)], tag.microbatch);
    EXPECT_TRUE(event.device == owner || (groups[as_index(owner)] >= 0 && groups[as_index(owner)] == groups[as_index(event.device)]));
    EXPECT_EQ(tag.replica, replica_of(plan.stages[as_index(tag.stage)], tag.microbatch));
  }
  std::size_t expected = 0;
  for (const std::vector<Action>& row : plan.actions) {
    std::map<int, Nanoseconds> done;  // by layer
    for (const Action& action : row) {
      if (action.kind != ActionKind::backward_weight) continue;
      const Stage& stage = plan.stages[as_index(action.stage)];
      for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
        const auto found = weights.find({action.microbatch, layer});
        const int owner = device_of(stage, action.microbatch);
        const double seconds = cost.layer(owner, layer, plan.microbatch_sizes[as_index(action.microbatch)]).backward_weight_s;
        if (found == weights.end()) {
          EXPECT_LT(seconds, 1e-9) << layer;
          continue;
        }
        ++expected;
        const Event& event = found->second;
        EXPECT_GE(event.start, inputs.at({action.microbatch, action.stage}));
        EXPECT_GE(event.start, done[layer]);
        done[layer] = event.end();
      }
    }
  }
  EXPECT_EQ(weights.size(), expected);
}

std::int64_t sum_of(const Trace& trace, EventKind kind) {
  std::int64_t sum = 0;
  for (const Event& event : trace.events) sum += event.kind == kind ? event.duration.count() : 0;
  return sum;
}

TEST(Helping, TracesKeepTheLaws) {
  std::mt19937 random(32);
  for (int round = 0; round < 300; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 4)(random);
    testing::ProfileShape shape = testing::random_shape(random, 8, devices);
    if (round % 2 == 1) shape.busy = 1.4;
    const CostModel cost(testing::with_names(testing::make_profile(shape, testing::random_factors(random, 8)), cpu_names(devices)));
    const Plan plan = helped(testing::random_virtual_plan(random, 8, devices, 1 + round % 2), cpu_names(devices));
    const Simulation simulation = simulate(plan, cost);
    const Trace& trace = simulation.trace;
    testing::expect_lanes_free_of_overlap(trace);
    testing::expect_edges_kept(trace);
    testing::expect_recomputation(plan, trace);
    testing::expect_copies(plan, trace);
    expect_weights(plan, cost, trace);
    EXPECT_EQ(simulation.prediction, predict(plan, cost));
    EXPECT_LE(simulation.prediction.lower_bound_s, simulation.prediction.step_s);
    for (const profiler::StepWork& step : profiler::step_works(trace)) {
      Nanoseconds sum{0};
      for (const profiler::CriticalPart& part : profiler::critical_path(step)) sum += part.time;
      EXPECT_EQ(sum, step.window.end - step.window.start);
    }
    for (const profiler::StepBreakdown& step : profiler::break_down(trace).steps) {
      for (std::size_t d = 0; d < step.devices.size(); ++d) {
        const profiler::DeviceBreakdown& device = step.devices[d];
        EXPECT_EQ(device.compute + device.copy + device.overlap + device.idle, device.window);
        EXPECT_EQ(device.causes.total(), device.idle);
        EXPECT_NEAR(std::chrono::duration<double>(device.compute + device.overlap).count(), simulation.prediction.busy_s[d], 1.0001e-9);
      }
    }
    Plan alone = plan;
    alone.options.idle_devices_help = false;
    if (shape.busy == 1) {
      const Trace unhelped = simulate(alone, cost).trace;
      for (const EventKind kind : {EventKind::forward, EventKind::backward, EventKind::backward_input, EventKind::backward_weight})
        EXPECT_EQ(sum_of(trace, kind), sum_of(unhelped, kind)) << "work is neither lost nor made";
    }
    std::vector<std::int64_t> most(plan.devices.size(), 0);
    for (const MemorySample& sample : trace.memory)
      most[as_index(sample.device)] = std::max(most[as_index(sample.device)], sample.current_bytes);
    for (std::size_t d = 0; d < most.size(); ++d)
      EXPECT_TRUE(plan.actions[d].empty() || most[d] == simulation.prediction.peak_bytes[d]) << "the peak is in the trace";
    const std::vector<std::int64_t> peaks = cost.peak_bytes(alone);
    for (std::size_t d = 0; d < most.size(); ++d) EXPECT_GE(simulation.prediction.peak_bytes[d], peaks[d]);
  }
}

TEST(Helping, NeverBeatsTheBoundInAnyOrderOfTheRows) {
  std::mt19937 random(33);
  for (int round = 0; round < 300; ++round) {
    const int devices = std::uniform_int_distribution<int>(2, 3)(random);
    const CostModel cost(coarse_profile(random, 6, cpu_names(devices)));
    Plan plan = helped(without_recompute(testing::random_virtual_plan(random, 6, devices, 2)), cpu_names(devices));
    const double bound = lower_bound_seconds(plan, cost);
    for (int order = 0; order < 10; ++order) {
      testing::RandomRows(random, plan, 2);
      ASSERT_GE(predict(plan, cost).step_s, bound - 1e-12) << round;
    }
  }
}

TEST(Helping, WithoutSplitBackwardChangesNothing) {
  std::mt19937 random(34);
  for (int round = 0; round < 50; ++round) {
    const CostModel cost(coarse_profile(random, 6, cpu_names(2)));
    Plan plan = testing::random_virtual_plan(random, 6, 2, 0);
    plan.devices = cpu_names(2);
    const Prediction alone = predict(plan, cost);
    plan.options.idle_devices_help = true;
    EXPECT_EQ(predict(plan, cost).step_s, alone.step_s);
    EXPECT_EQ(predict(plan, cost).peak_bytes, alone.peak_bytes);
  }
}

}  // namespace
}  // namespace mptune::planner

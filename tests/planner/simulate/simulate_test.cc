#include "mptune/planner/simulate/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/analyze/breakdown.h"
#include "mptune/profiler/trace/error.h"
#include "mptune/tests/planner/profiles.h"

namespace mptune {
namespace {

using test::make_profile;
using test::ones;
using test::ProfileShape;
using test::scheduled;
using test::stages_of;

constexpr double kNs = 1.0001e-9;

TEST(Simulate, UniformStagesWithFreeLinksTakeTheTextbookTime) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int m = 1; m <= 8; ++m) {
      const CostModel cost(make_profile({.layers = 2 * stages, .devices = 5}));
      for (const char* schedule : {"1f1b", "gpipe"}) {
        const Plan plan = scheduled(stages_of(2 * stages, std::vector<int>(static_cast<std::size_t>(stages), 1), ones(m)), schedule);
        const Prediction prediction = predict(plan, cost);
        EXPECT_NEAR(prediction.step_s, (m + stages - 1) * 2 * (0.001 + 0.002), 1e-9) << stages << " " << m << schedule;
        EXPECT_NEAR(prediction.lower_bound_s, prediction.step_s, 1e-9) << "the bound is tight here";
        for (const double busy : prediction.busy_s) EXPECT_NEAR(busy, m * 2 * 0.003, 1e-9);
      }
    }
  }
}

TEST(Simulate, NaiveModelParallelIsTheSumOfEverything) {
  const CostModel cost(
      make_profile({.layers = 6, .devices = 3, .latency_s = 0.01, .bytes_per_second = 1e5, .action_s = 0.0001, .step_s = 0.5}));
  const Plan plan = scheduled(stages_of(6, {1, 1, 1}, {4}), "naive");
  EXPECT_NEAR(predict(plan, cost).step_s, 6 * 4 * 0.003 + 4 * (0.01 + 400 / 1e5) + 6 * 0.0001 + 0.5, 1e-8);
  EXPECT_NEAR(lower_bound_seconds(plan, cost), predict(plan, cost).step_s, 1e-8);
}

TEST(Simulate, DataParallelEndsWithTheReductionAndOneUpdate) {
  const CostModel cost(make_profile({.layers = 2, .devices = 4, .optimizer_s_per_byte = 1e-5, .reduce_s_per_byte = 4e-5}));
  const Plan plan = scheduled(stages_of(2, {4}, {2, 2, 2, 2}), "1f1b");
  EXPECT_NEAR(predict(plan, cost).step_s, 2 * 2 * 0.003 + 2000 * 4e-5 * 3 / 4 + 2000 * 1e-5, 1e-9);
}

TEST(Simulate, RecomputationRunsWhileTheGradientIsAwaited) {
  const CostModel cost(make_profile({.layers = 2, .devices = 2, .latency_s = 0.005}));
  Plan plan = scheduled(stages_of(2, {1, 1}, {1}), "naive");
  const double without = predict(plan, cost).step_s;
  plan.stages[0].recompute.mode = Recompute::Mode::all;
  EXPECT_NEAR(predict(plan, cost).step_s, without, 1e-9) << "hidden behind the second stage";
  EXPECT_NEAR(predict(plan, cost).busy_s[0], 0.004, 1e-9);
  plan.stages[1].recompute.mode = Recompute::Mode::all;
  EXPECT_NEAR(predict(plan, cost).step_s, without + 0.001, 1e-9);
  plan.stages[0].recompute = {Recompute::Mode::some, {0}, {}};
  EXPECT_NEAR(predict(plan, cost).step_s, without + 0.001, 1e-9);
}

TEST(Simulate, CopiesOfOneDirectionWaitForEachOther) {
  // Copies of 10 ms, stages of 3 ms: the lane to the second device is what limits the forward of gpipe.
  const CostModel cost(make_profile({.layers = 2, .devices = 2, .latency_s = 0.010}));
  const Plan plan = scheduled(stages_of(2, {1, 1}, ones(4)), "gpipe");
  EXPECT_NEAR(predict(plan, cost).step_s, 0.001 + 4 * 0.010 + 0.001 + 0.002 + 4 * 0.010 + 0.002, 1e-9);
}

TEST(Simulate, DevicesThatComputeTogetherSlowEachOther) {
  const CostModel cost(make_profile({.layers = 2, .devices = 2, .busy = 1.5}));
  const Plan alone = scheduled(stages_of(2, {1}, {4}), "naive");
  EXPECT_NEAR(predict(alone, cost).step_s, 2 * 4 * 0.003, 1e-9);
  const Plan naive = scheduled(stages_of(2, {1, 1}, {4}), "naive");
  EXPECT_NEAR(predict(naive, cost).step_s, 2 * 4 * 0.003, 1e-9) << "never two at once";
  const Plan together = scheduled(stages_of(2, {2}, {2, 2}), "1f1b");
  EXPECT_NEAR(predict(together, cost).step_s, 1.5 * 2 * 2 * 0.003, 1e-8) << "always two at once";
  const CostModel three(make_profile({.layers = 2, .devices = 3, .busy = 1.5}));
  EXPECT_NEAR(predict(together, three).step_s, 1.25 * 2 * 2 * 0.003, 1e-8) << "one of two neighbours";
}

Plan random_plan(std::mt19937& random, int layers, int devices) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int stages = draw(1, std::min(layers, devices));
  std::vector<int> replicas(static_cast<std::size_t>(stages), 1);
  for (int spare = devices - stages; spare > 0; --spare) {
    if (draw(0, 1) == 1) ++replicas[static_cast<std::size_t>(draw(0, stages - 1))];
  }
  const int batch = draw(8, 16);
  Plan plan = stages_of(layers, replicas, split_evenly(batch, draw(1, 8)));
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    const int cut = draw(plan.stages[s - 1].first_layer + 1, plan.stages[s].last_layer - 1);
    plan.stages[s - 1].last_layer = plan.stages[s].first_layer = cut;
  }
  for (Stage& stage : plan.stages) {
    if (draw(0, 3) == 0) stage.recompute.mode = Recompute::Mode::all;
    if (draw(0, 5) == 0) stage.recompute = {Recompute::Mode::some, {stage.first_layer}, {}};
  }
  make_schedule(plan, draw(0, 1) == 0 ? "gpipe" : "1f1b");
  return plan;
}

// Slow truth, written from the rules and sharing no code: every device, lane and wait by itself, until nothing changes.
class Oracle {
 public:
  Oracle(const Plan& plan, const CostModel& cost) : plan_(plan), cost_(cost) {}

  double step() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t d = 0; d < plan_.actions.size(); ++d) changed |= run_row(static_cast<int>(d));
    }
    double end = 0;
    for (const auto& [key, time] : done_) end = std::max(end, time);
    std::map<int, double> reduced, updated;
    for (const Stage& stage : plan_.stages) {
      const auto r = static_cast<double>(stage.devices.size());
      if (r < 2) continue;
      for (const int d : stage.devices)
        reduced[d] += cost_.reduce_seconds(d, cost_.parameters_bytes(stage.first_layer, stage.last_layer)) * (r - 1) / r;
    }
    double last = end;
    for (const Stage& stage : plan_.stages) {
      double start = end + std::max(reduced[stage.devices[0]], updated[stage.devices[0]]);
      for (const int d : stage.devices) start = std::max(start, end + (stage.devices.size() > 1 ? reduced[d] : 0));
      const double finish = start + cost_.optimizer_seconds(stage.devices[0], cost_.parameters_bytes(stage.first_layer, stage.last_layer));
      updated[stage.devices[0]] = finish - end;
      last = std::max({last, finish});
    }
    for (const auto& [d, time] : reduced) last = std::max(last, end + time);
    return last + cost_.step_seconds(0);
  }

 private:
  double arrived(bool forward, int stage, int i) {
    const auto found = arrived_.find({forward, stage, i});
    return found == arrived_.end() ? -1 : found->second;
  }

  bool run_row(int d) {
    bool changed = false;
    auto& row = plan_.actions[static_cast<std::size_t>(d)];
    for (std::size_t& k = next_[d]; k < row.size(); ++k) {
      const Action action = row[k];
      const Stage& stage = plan_.stages[static_cast<std::size_t>(action.stage)];
      const bool forward = action.kind == ActionKind::forward;
      const bool waits = forward ? action.stage > 0 : action.stage + 1 < plan_.num_stages();
      const double input = waits ? arrived(forward, action.stage, action.microbatch) : 0;
      if (input < 0) return changed;
      double t = free_[d];
      const int samples = plan_.microbatch_sizes[static_cast<std::size_t>(action.microbatch)];
      if (forward) t = std::max(t, input) + cost_.action_seconds(d);
      if (!forward && stage.recompute.mode != Recompute::Mode::none) {
        t += cost_.action_seconds(d);
        for (int l = stage.first_layer; l < stage.last_layer; ++l) {
          const bool again = stage.recompute.mode == Recompute::Mode::all || l == stage.recompute.layers[0];
          t += again ? cost_.layer(d, l, samples).forward_s : 0;
        }
        t = std::max(t, input);
      } else if (!forward) {
        t = std::max(t, input) + cost_.action_seconds(d);
      }
      for (int l = stage.first_layer; l < stage.last_layer; ++l)
        t += forward ? cost_.layer(d, l, samples).forward_s : cost_.layer(d, l, samples).backward_s;
      free_[d] = done_[{forward, action.stage, action.microbatch}] = t;
      send(forward, action.stage, action.microbatch, d, t);
      changed = true;
    }
    return changed;
  }

  void send(bool forward, int stage, int i, int from, double t) {
    const int next = forward ? stage + 1 : stage - 1;
    if (next < 0 || next >= plan_.num_stages()) return;
    const int to = device_of(plan_.stages[static_cast<std::size_t>(next)], i);
    if (to != from) {
      const int cut = plan_.stages[static_cast<std::size_t>(std::max(stage, next))].first_layer;
      const std::int64_t bytes = cost_.boundary_bytes(cut, plan_.microbatch_sizes[static_cast<std::size_t>(i)], !forward);
      t = std::max(t, lane_[{from, to}]) + cost_.copy_seconds(from, to, bytes);
      lane_[{from, to}] = t;
    }
    arrived_[{forward, next, i}] = t;
  }

  const Plan& plan_;
  const CostModel& cost_;
  std::map<int, std::size_t> next_;
  std::map<int, double> free_;
  std::map<std::pair<int, int>, double> lane_;
  std::map<std::tuple<bool, int, int>, double> done_, arrived_;
};

TEST(Simulate, AgreesWithTheRulesWrittenDownAgain) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 5)(random);
    const CostModel cost(make_profile(test::random_shape(random, 7, devices), test::random_factors(random, 7)));
    const Plan plan = random_plan(random, 7, devices);
    EXPECT_NEAR(predict(plan, cost).step_s, Oracle(plan, cost).step(), 1e-6) << round;
  }
}

// The same with devices that slow each other: laws only.
CostModel random_cost(std::mt19937& random, int layers, int devices) {
  ProfileShape shape = test::random_shape(random, layers, devices);
  if (std::uniform_int_distribution<int>(0, 1)(random) == 1) shape.busy = std::uniform_real_distribution<double>(1.0, 1.8)(random);
  return CostModel(make_profile(shape, test::random_factors(random, layers)));
}

TEST(Simulate, TheLowerBoundLiesBelowEverySchedule) {
  std::mt19937 random(2);
  double closest = 1e9;
  for (int round = 0; round < 500; ++round) {
    const CostModel cost = random_cost(random, 7, 4);
    Plan plan = random_plan(random, 7, 4);
    const Prediction first = predict(plan, cost);
    EXPECT_LE(first.lower_bound_s, first.step_s) << round;
    EXPECT_EQ(first.lower_bound_s, lower_bound_seconds(plan, cost));
    closest = std::min(closest, first.step_s / first.lower_bound_s);
    // Another order of the same actions has the same bound.
    make_schedule(plan, "gpipe");
    EXPECT_LE(first.lower_bound_s, predict(plan, cost).step_s);
    EXPECT_NEAR(first.lower_bound_s, predict(plan, cost).lower_bound_s, kNs);
  }
  EXPECT_LT(closest, 1.01) << "a bound that is never near proves little";
}

TEST(Simulate, AFasterLinkIsNeverSlower) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    Profile profile = make_profile(test::random_shape(random, 6, 4), test::random_factors(random, 6));
    const Plan plan = random_plan(random, 6, 4);
    const double slow = predict(plan, CostModel(profile)).step_s;
    LinkCost& link = profile.links[std::uniform_int_distribution<std::size_t>(0, profile.links.size() - 1)(random)];
    link.bytes_per_second *= 4;
    link.latency_s /= 2;
    EXPECT_LE(predict(plan, CostModel(profile)).step_s, slow);
  }
}

TEST(Simulate, PredictIsThePredictionOfSimulate) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const CostModel cost = random_cost(random, 6, 4);
    const Plan plan = random_plan(random, 6, 4);
    const Simulation simulation = simulate(plan, cost);
    EXPECT_EQ(simulation.prediction, predict(plan, cost));
    ASSERT_EQ(simulation.trace.steps.size(), 1u);
    const auto window = simulation.trace.steps[0].end - simulation.trace.steps[0].start;
    EXPECT_NEAR(std::chrono::duration<double>(window).count(), simulation.prediction.step_s, kNs);
  }
}

void expect_lanes_free_of_overlap(const Trace& trace) {
  std::map<std::pair<int, int>, Nanoseconds> end;
  for (const Event& event : trace.events) {
    Nanoseconds& free = end[{event.device, event.lane}];
    EXPECT_GE(event.start, free);
    free = event.end();
  }
}

void expect_edges_kept(const Trace& trace) {
  for (const Edge& edge : trace.edges) {
    EXPECT_LE(trace.events[static_cast<std::size_t>(edge.producer)].end(), trace.events[static_cast<std::size_t>(edge.consumer)].start);
  }
}

// Every layer runs forward and backward once per micro-batch, on the device of its stage, tagged.
void expect_all_layers(const Plan& plan, const Trace& trace) {
  std::map<std::tuple<What, int, int>, int> seen;
  for (const Event& event : trace.events) {
    const Tag& tag = trace.tags.at(static_cast<std::size_t>(event.tag));
    EXPECT_EQ(tag.step, 0);
    const Stage& stage = plan.stages.at(static_cast<std::size_t>(tag.stage));
    EXPECT_EQ(stage.devices.at(static_cast<std::size_t>(tag.replica)), event.device);
    if (event.what != What::forward && event.what != What::backward) continue;
    EXPECT_EQ(device_of(stage, tag.microbatch), event.device);
    EXPECT_EQ(trace.names.at(static_cast<std::size_t>(event.name)), "layer" + std::to_string(tag.layer));
    ++seen[{event.what, tag.microbatch, tag.layer}];
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(2 * plan.num_microbatches() * plan.stages.back().last_layer));
  for (const auto& [key, count] : seen) EXPECT_EQ(count, 1);
}

void expect_copies(const Plan& plan, const Trace& trace) {
  std::size_t crossings = 0;
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    for (int i = 0; i < plan.num_microbatches(); ++i) crossings += device_of(plan.stages[s - 1], i) != device_of(plan.stages[s], i) ? 2 : 0;
  }
  std::set<int> used;
  for (const Event& event : trace.events) {
    if (event.what != What::copy) continue;
    const Copy& copy = trace.copies.at(static_cast<std::size_t>(event.detail));
    EXPECT_EQ(copy.source, event.device);
    EXPECT_EQ(copy_lane(copy.destination), event.lane);
    EXPECT_GT(copy.bytes, 0);
    used.insert(event.detail);
  }
  EXPECT_EQ(used.size(), crossings);
  EXPECT_EQ(trace.copies.size(), crossings);
}

void expect_ranges(const Plan& plan, const Trace& trace) {
  std::size_t actions = 0;
  for (const auto& row : plan.actions) actions += row.size();
  std::size_t found = 0;
  for (const Event& range : trace.ranges) {
    found += range.what == What::action ? 1u : 0u;
    EXPECT_GE(range.start, trace.steps[0].start);
    EXPECT_LE(range.end(), trace.steps[0].end);
  }
  EXPECT_EQ(found, actions);
  EXPECT_EQ(trace.ranges.size(), actions + plan.devices.size());
}

TEST(Simulate, TheTraceLooksLikeAMeasuredOne) {
  std::mt19937 random(6);
  for (int round = 0; round < 100; ++round) {
    const CostModel cost = random_cost(random, 6, 4);
    const Plan plan = random_plan(random, 6, 4);
    const Trace trace = simulate(plan, cost).trace;
    EXPECT_TRUE(trace.simulated);
    EXPECT_EQ(trace.devices.size(), plan.devices.size());
    EXPECT_TRUE(std::is_sorted(trace.events.begin(), trace.events.end(), [](const Event& a, const Event& b) { return a.start < b.start; }));
    expect_lanes_free_of_overlap(trace);
    expect_edges_kept(trace);
    expect_all_layers(plan, trace);
    expect_copies(plan, trace);
    expect_ranges(plan, trace);
  }
}

TEST(Simulate, TheBreakdownOfTheTraceIsThePrediction) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const CostModel cost = random_cost(random, 6, 3);
    const Plan plan = random_plan(random, 6, 3);
    const Simulation simulation = simulate(plan, cost);
    const Breakdown breakdown = break_down(simulation.trace);
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      const DeviceBreakdown& device = breakdown.steps.at(0).devices.at(d);
      EXPECT_NEAR(std::chrono::duration<double>(device.compute + device.overlap).count(), simulation.prediction.busy_s[d], kNs);
    }
  }
}

TEST(Simulate, SaysWhatItCannotPrice) {
  const CostModel cost(make_profile({.layers = 2, .devices = 2}));
  Plan plan = scheduled(stages_of(2, {1, 1}, {1}), "naive");
  EXPECT_FALSE(predict(plan, cost).extrapolated);
  plan.actions[1] = actions_from_text("1F0 1I0 1W0", "");
  EXPECT_THROW((void)predict(plan, cost), Error);
  plan.devices[1] = "cpu:9";
  EXPECT_THROW((void)predict(plan, cost), Error);
  EXPECT_TRUE(predict(scheduled(stages_of(2, {1, 1}, {9}), "naive"), cost).extrapolated);
}

TEST(Simulate, NamesTheStageThatLimits) {
  const CostModel cost(make_profile({.layers = 3, .devices = 3}, {1, 5, 2}));
  EXPECT_EQ(predict(scheduled(stages_of(3, {1, 1, 1}, ones(4)), "1f1b"), cost).limiting_stage, 1);
}

}  // namespace
}  // namespace mptune

#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "planner/cost/replica_costs.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "profiler/trace/analyze/breakdown.h"
#include "tests/planner/profiles.h"
#include "tests/planner/random_plans.h"
#include "tests/planner/simulate/laws.h"
#include "tests/planner/simulate/oracle.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ones;
using testing::ProfileShape;
using testing::random_cost;
using testing::random_plan;
using testing::scheduled;
using testing::stages_of;

constexpr double kNs = 1.0001e-9;

TEST(Simulate, UniformStagesWithFreeLinksTakeTheTextbookTime) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int m = 1; m <= 8; ++m) {
      const CostModel cost(make_profile({.layers = 2 * stages, .devices = 5}));
      for (const char* schedule : {"1f1b", "gpipe"}) {
        const Plan plan = scheduled(stages_of(2 * stages, std::vector<int>(as_index(stages), 1), ones(m)), schedule);
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

// Another thread's sum on a GPU's memory would be in nobody's lane: the first sums the gradients of all.
TEST(Simulate, OfReplicasOnGpusTheFirstSumsAlone) {
  const Profile profile = make_profile({.layers = 2, .devices = 4, .optimizer_s_per_byte = 1e-5, .reduce_s_per_byte = 4e-5});
  const Plan plan = scheduled(stages_of(2, {4}, {2, 2, 2, 2}), "1f1b");
  const auto end_s = [&](std::size_t first_gpu, double work_s) {
    const CostModel cost(testing::with_gpus(profile, first_gpu));
    EXPECT_NEAR(predict(plan, cost).lower_bound_s, predict(plan, cost).step_s, 1e-9);
    return predict(plan, cost).step_s - work_s - 2000 * 1e-5;
  };
  EXPECT_NEAR(end_s(4, 2 * 2 * 0.003), 2000 * 4e-5 * 3 / 4, 1e-9) << "no GPU";
  EXPECT_NEAR(end_s(0, 2 * 2 * 0.0015), 2000 * 2e-5 * 3, 1e-9) << "GPUs alone";
  EXPECT_NEAR(end_s(1, 2 * 2 * 0.003), 2000 * 4e-5 * 3 / 4, 1e-9) << "the first replica, which holds the sums, is no GPU";
}

// The first gets the gradients of the two others one after the other; then both get the parameters at the same time.
TEST(Simulate, ReplicasOnGpusCopyGradientsAndParametersOverTheirLinks) {
  Profile profile = make_profile({.layers = 2, .devices = 3, .bytes_per_second = 1e5, .reduce_s_per_byte = 4e-5});
  for (LinkCost& link : profile.links) link.tensor_s = 0.002;
  profile.layers[1].parameter_tensors = 4;
  const Plan plan = scheduled(stages_of(2, {3}, {2, 2, 2}), "1f1b");
  const CostModel cost(testing::with_gpus(profile, 0));
  const std::vector<int> all{0, 1, 2};
  EXPECT_NEAR(replica_copies_seconds(cost, all, 0), 3 * (1000 / 1e5), 1e-9);
  EXPECT_NEAR(replica_copies_seconds(cost, all, 1), 3 * (1000 / 1e5 + 4 * 0.002), 1e-9) << "four tensors";
  EXPECT_EQ(replica_copies_seconds(cost, std::vector<int>{2}, 0), 0);
  EXPECT_EQ(replica_copies_seconds(CostModel(profile), all, 1), 0) << "in the host's memory";
  Profile instant = profile;
  for (LinkCost& link : instant.links) link.tensor_s = 0, link.bytes_per_second = 1e15;
  const double without_s = predict(plan, CostModel(testing::with_gpus(instant, 0))).step_s;
  EXPECT_NEAR(predict(plan, cost).step_s, without_s + 3 * (2000 / 1e5 + 4 * 0.002), 1e-6);
  EXPECT_LE(predict(plan, cost).lower_bound_s, predict(plan, cost).step_s);
}

// Two replicas on rank 0, two on rank 1: each rank gets half of the gradients of the other's replicas, one after the other, and sends its
// half of the sum. Each adds that half of three gradients, and updates all parameters.
TEST(Simulate, RanksOfReplicasShareTheSumOfTheGradients) {
  const Profile profile = make_profile(
      {.layers = 2, .devices = 4, .latency_s = 0.01, .bytes_per_second = 1e5, .optimizer_s_per_byte = 1e-5, .reduce_s_per_byte = 4e-5});
  Plan plan = scheduled(stages_of(2, {4}, {2, 2, 2, 2}), "1f1b");
  plan.devices = {"0@cpu:0", "0@cpu:1", "1@cpu:2", "1@cpu:3"};
  const CostModel cost(testing::with_names(profile, plan.devices));
  const double message_s = 0.01 + 1000 / 1e5;
  const std::vector<int> all{0, 1, 2, 3};
  EXPECT_NEAR(replica_messages_seconds(cost, all, 2000), 3 * message_s, 1e-12);
  EXPECT_EQ(replica_messages_seconds(cost, std::vector<int>{0, 1}, 2000), 0);
  EXPECT_EQ(updating_replicas(cost, all), (std::vector<int>{0, 2}));
  EXPECT_EQ(summing_replicas(cost, all), (std::vector<int>{0, 2}));
  EXPECT_EQ(summing_replicas(cost, std::vector<int>{0, 1}), (std::vector<int>{0, 1}));
  EXPECT_NEAR(predict(plan, cost).step_s, 2 * 2 * 0.003 + 2000 * 4e-5 * 3 / 2 + 3 * message_s + 2000 * 1e-5, 1e-9);
  EXPECT_LE(predict(plan, cost).lower_bound_s, predict(plan, cost).step_s);
}

// A CPU and a GPU round differently: the first replica's rank gets all gradients, and sends the parameters.
TEST(Simulate, OneRankSumsForReplicasOnTwoKindsOfDevices) {
  const std::vector<std::string> names{"0@cpu:0", "1@cuda:0"};
  const Profile profile = make_profile({.layers = 2, .devices = 2, .latency_s = 0.01, .bytes_per_second = 1e5, .reduce_s_per_byte = 4e-5});
  const CostModel cost(testing::with_gpus(testing::with_names(profile, names), 1));
  const std::vector<int> all{0, 1};
  EXPECT_EQ(updating_replicas(cost, all), std::vector<int>{0});
  EXPECT_EQ(summing_replicas(cost, all), std::vector<int>{0});
  EXPECT_NEAR(replica_messages_seconds(cost, all, 2000), 2 * (0.01 + 2000 / 1e5), 1e-12);
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

// Two stages of two layers, one micro-batch: F 2, copy 5, F B 6, copy 5, B 4. Of the first stage only what is recomputed at its end fits
// into the wait for the gradient.
TEST(Simulate, OnlyTheLastPieceIsRecomputedBeforeTheGradientIsThere) {
  const CostModel cost(make_profile({.layers = 4, .devices = 2, .latency_s = 0.005}));
  Plan plan = scheduled(stages_of(4, {1, 1}, {1}), "naive");
  const auto step_ms = [&](const std::vector<int>& first, const std::vector<int>& second) {
    plan.stages[0].recompute = {first.empty() ? Recompute::Mode::none : Recompute::Mode::some, first, {}};
    plan.stages[1].recompute = {second.empty() ? Recompute::Mode::none : Recompute::Mode::some, second, {}};
    EXPECT_NEAR(predict(plan, cost).lower_bound_s, predict(plan, cost).step_s, 1e-12) << "one micro-batch has one order";
    return std::lround(predict(plan, cost).step_s * 1e3);
  };
  EXPECT_EQ(step_ms({}, {}), 22);
  EXPECT_EQ(step_ms({1}, {}), 22) << "in the wait";
  EXPECT_EQ(step_ms({0}, {}), 23) << "the gradient comes to it last";
  EXPECT_EQ(step_ms({0, 1}, {}), 22);
  EXPECT_EQ(step_ms({}, {2}), 23);
  EXPECT_EQ(step_ms({0}, {3}), 24);
}

TEST(Simulate, PiecesAreRecomputedWhenTheGradientComesToThem) {
  const CostModel cost(make_profile({.layers = 6, .devices = 1}));
  Plan plan = scheduled(stages_of(6, {1}, {1}), "naive");
  plan.stages[0].recompute = {Recompute::Mode::some, {0, 2, 3, 5}, {}};
  std::string order;
  for (const Event& event : simulate(plan, cost).trace.events)
    order += event.kind == EventKind::recompute  ? " r"
             : event.kind == EventKind::forward  ? " f"
             : event.kind == EventKind::backward ? " b"
                                                 : "";
  EXPECT_EQ(order, " f f f f f f r b b r r b b b r b");
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

TEST(Simulate, AgreesWithTheRulesWrittenDownAgain) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const int devices = std::uniform_int_distribution<int>(1, 5)(random);
    const CostModel cost(make_profile(testing::random_shape(random, 7, devices), testing::random_factors(random, 7)));
    const Plan plan = random_plan(random, 7, devices);
    EXPECT_NEAR(predict(plan, cost).step_s, testing::Oracle(plan, cost).step(), 1e-6) << round;
  }
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
    Profile profile = make_profile(testing::random_shape(random, 6, 4), testing::random_factors(random, 6));
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

TEST(Simulate, TheTraceLooksLikeAMeasuredOne) {
  std::mt19937 random(6);
  for (int round = 0; round < 100; ++round) {
    const CostModel cost = random_cost(random, 6, 4);
    const Plan plan = random_plan(random, 6, 4);
    const Trace trace = simulate(plan, cost).trace;
    EXPECT_TRUE(trace.simulated);
    EXPECT_EQ(trace.devices.size(), plan.devices.size());
    EXPECT_TRUE(std::is_sorted(trace.events.begin(), trace.events.end(), [](const Event& a, const Event& b) { return a.start < b.start; }));
    testing::expect_lanes_free_of_overlap(trace);
    testing::expect_edges_kept(trace);
    testing::expect_all_layers(plan, trace);
    testing::expect_recomputation(plan, trace);
    testing::expect_copies(plan, trace);
    testing::expect_ranges(plan, trace);
  }
}

TEST(Simulate, TheBreakdownOfTheTraceIsThePrediction) {
  std::mt19937 random(8);
  for (int round = 0; round < 100; ++round) {
    const CostModel cost = random_cost(random, 6, 3);
    const Plan plan = random_plan(random, 6, 3);
    const Simulation simulation = simulate(plan, cost);
    const profiler::Breakdown breakdown = profiler::break_down(simulation.trace);
    for (std::size_t d = 0; d < plan.devices.size(); ++d) {
      const profiler::DeviceBreakdown& device = breakdown.steps.at(0).devices.at(d);
      EXPECT_NEAR(std::chrono::duration<double>(device.compute + device.overlap).count(), simulation.prediction.busy_s[d], kNs);
    }
  }
}

TEST(Simulate, SaysWhatItCannotPrice) {
  const CostModel cost(make_profile({.layers = 2, .devices = 2}));
  Plan plan = scheduled(stages_of(2, {1, 1}, {1}), "naive");
  EXPECT_FALSE(predict(plan, cost).extrapolated);
  plan.devices[1] = "cpu:9";
  EXPECT_THROW((void)predict(plan, cost), Error);
  EXPECT_TRUE(predict(scheduled(stages_of(2, {1, 1}, {9}), "naive"), cost).extrapolated);
}

TEST(Simulate, NamesTheStageThatLimits) {
  const CostModel cost(make_profile({.layers = 3, .devices = 3}, {1, 5, 2}));
  EXPECT_EQ(predict(scheduled(stages_of(3, {1, 1, 1}, ones(4)), "1f1b"), cost).limiting_stage, 1);
}

}  // namespace
}  // namespace mptune::planner

#include "planner/advise/advise.h"
#include "profiler/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using testing::make_profile;
using testing::ones;
using testing::scheduled;
using testing::stages_of;

Plan pipeline(int layers, int stages, int m, const char* schedule) {
  return scheduled(stages_of(layers, std::vector<int>(as_index(stages), 1), ones(m)), schedule);
}

// The bubble of the papers, for any plan of K stages and m micro-batches.
TEST(TheoreticalBubble, IsTheClosedFormOfGpipeAnd1f1b) {
  for (int stages = 1; stages <= 5; ++stages) {
    for (int m = 1; m <= 9; ++m)
      for (const char* schedule : {"gpipe", "1f1b"})
        EXPECT_NEAR(theoretical_bubble(pipeline(7, stages, m, schedule)), (stages - 1.0) / (m + stages - 1), 1e-6) << stages << m;
    EXPECT_NEAR(theoretical_bubble(pipeline(7, stages, 1, "naive")), (stages - 1.0) / stages, 1e-6);
  }
}

// Every device works without a pause, and each starts a forward later than the one before (arXiv 2401.10241).
TEST(TheoreticalBubble, KnowsTheSplitBackward) {
  for (int stages = 2; stages <= 6; ++stages) {
    const int m = 3 * stages;
    EXPECT_NEAR(theoretical_bubble(pipeline(7, stages, m, "zb2p")), (stages - 1.0) / (3 * m + stages - 1), 1e-6) << stages;
    EXPECT_LT(theoretical_bubble(pipeline(7, stages, m, "zb1p")), theoretical_bubble(pipeline(7, stages, m, "1f1b"))) << stages;
  }
}

TEST(SimulatedSchedule, TakesTheStepThatIsGivenAndHasWeightGradients) {
  const Plan plan = pipeline(7, 3, 9, "zb2p");
  EXPECT_NEAR(simulate_schedule(plan, 0.05).prediction.step_s, 0.05, 1e-6);
  EXPECT_NEAR(simulate_schedule(plan).prediction.step_s, (3 * 9 + 2) * 1e-3, 1e-6);
  const Trace trace = simulate_schedule(plan, 0.05).trace;
  const auto weights = std::ranges::count_if(
      trace.events, [](const Event& event) { return event.kind == EventKind::backward_weight && event.duration > Nanoseconds{0}; });
  EXPECT_EQ(weights, 3 * 9);
}

TEST(AdviseTrace, NamesTheLongStageAndItsWorth) {
  // 1f1b on 3 stages of 3, 3 and 12 ms a micro-batch: the last one is busy throughout.
  const CostModel cost(make_profile({.layers = 3, .devices = 3}, {1, 1, 4}));
  const int m = 10;
  const Trace trace = simulate(pipeline(3, 3, m, "1f1b"), cost).trace;
  const std::vector<Advice> advice = advise(trace);
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].cause, IdleCause::imbalance);
  EXPECT_EQ(advice[0].stage, 2);
  // With 6 ms instead of 12 in the last stage the others still wait for it.
  EXPECT_NEAR(advice[0].saves_s, m * 0.006, 1e-6);
  EXPECT_NEAR(advice[0].saves_percent, 100 * m * 0.006 / (m * 0.012 + 0.006), 1e-3);
}

TEST(AdviseTrace, NamesTheSlowDevice) {
  Profile profile = make_profile({.layers = 2, .devices = 6});
  profile.classes.push_back(profile.classes[0]);
  for (LayerCosts& layer : profile.classes[1].layers)
    for (LayerCost& cost : layer.by_samples) cost.backward = exactly(median(cost.backward) * 3);
  profile.devices[4].device_class = 1;
  const Trace trace = simulate(scheduled(stages_of(2, {3, 3}, ones(12)), "1f1b"), CostModel(profile)).trace;
  const std::vector<Advice> advice = advise(trace);
  ASSERT_FALSE(advice.empty());
  EXPECT_EQ(advice[0].cause, IdleCause::straggler);
  EXPECT_EQ(advice[0].device, "sleep:4");
}

TEST(AdviseTrace, NamesTheSlowLinkAndTheLateHost) {
  const Plan plan = pipeline(2, 2, 1, "naive");
  Profile profile = make_profile({.layers = 2, .devices = 2});
  for (LinkCost& link : profile.links) link.latency_s = link.source == 0 ? 0.050 : 0.0;
  std::vector<Advice> advice = advise(simulate(plan, CostModel(profile)).trace);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].cause, IdleCause::copy_wait);
  EXPECT_EQ(advice[0].device, "sleep:1");
  EXPECT_NEAR(advice[0].saves_s, 0.050, 1e-6);

  advice = advise(simulate(plan, CostModel(make_profile({.layers = 2, .devices = 2, .action_s = 0.010}))).trace);
  ASSERT_EQ(advice.size(), 1u);
  EXPECT_EQ(advice[0].cause, IdleCause::host);
  EXPECT_NEAR(advice[0].saves_s, 4 * 0.010, 1e-6);
}

TEST(AdviseTrace, HasNothingToSayOfAnEvenStepOrOneWithoutStages) {
  EXPECT_TRUE(advise(simulate(pipeline(4, 4, 8, "1f1b"), CostModel(make_profile({.layers = 4, .devices = 4}))).trace).empty());
  EXPECT_TRUE(advise(Trace{}).empty());
  Trace untagged;
  untagged.devices.resize(1);
  untagged.events.push_back({.start = Nanoseconds{5}, .duration = Nanoseconds{5}, .kind = EventKind::kernel});
  EXPECT_TRUE(advise(untagged).empty());
}

TEST(AdvisePlan, EveryChangeIsWorthWhatItsSimulationSays) {
  // 5 layers, the third one three times as long, cut behind it: the cut belongs before it.
  const CostModel cost(make_profile({.layers = 5, .devices = 2, .sizes = {1, 2, 4, 8}}, {1, 1, 3, 1, 1}));
  Plan plan = stages_of(5, {1, 1}, {2, 2, 2, 2});
  plan.stages[0].last_layer = plan.stages[1].first_layer = 3;
  plan = scheduled(plan, "1f1b");
  const double now = predict(plan, cost).step_s;
  const std::vector<Advice> advice = advise(plan, cost);
  ASSERT_EQ(advice.size(), 1u) << "the stages of 5 and 2 have no better neighbour; links are free";
  EXPECT_EQ(advice[0].cause, IdleCause::structural);
  Plan finer = plan;
  finer.microbatch_sizes = split_evenly(8, 8);
  EXPECT_NEAR(advice[0].saves_s, now - predict(scheduled(finer, "1f1b"), cost).step_s, 1e-9);
  EXPECT_EQ(advice[0].remedy, Remedy(OtherMicrobatches{8, 4}));

  Plan worse = plan;
  worse.stages[0].last_layer = worse.stages[1].first_layer = 4;
  worse = scheduled(worse, "1f1b");
  const std::vector<Advice> of_worse = advise(worse, cost);
  const auto moved =
      std::find_if(of_worse.begin(), of_worse.end(), [](const Advice& found) { return found.cause == IdleCause::imbalance; });
  ASSERT_NE(moved, of_worse.end());
  EXPECT_EQ(moved->remedy, Remedy(MoveLayer{"layer3", 1, {3}}));
  EXPECT_EQ(moved->stage, 0);
  EXPECT_NEAR(moved->saves_s, predict(worse, cost).step_s - now, 1e-9);
}

TEST(AdvisePlan, RecomputationIsDroppedOnlyWhereMemoryAllowsIt) {
  Profile profile = make_profile({.layers = 2, .devices = 2, .latency_s = 0.004, .bytes_per_second = 1e5});
  Plan plan = pipeline(2, 2, 4, "1f1b");
  const std::int64_t needed = CostModel(profile).peak_bytes(plan)[0];
  plan.stages[0].recompute.mode = plan.stages[1].recompute.mode = Recompute::Mode::all;
  const auto offers = [&](const Profile& of) {
    const std::vector<Advice> advice = advise(plan, CostModel(of));
    return std::any_of(advice.begin(), advice.end(), [](const Advice& a) { return std::holds_alternative<SaveActivations>(a.remedy); });
  };
  EXPECT_TRUE(offers(profile));
  profile.devices[0].memory_bytes = needed - 1;
  EXPECT_FALSE(offers(profile));
}

}  // namespace
}  // namespace mptune::planner

#include "planner/advise/recorded_run.h"

#include <gmock/gmock.h>

#include <random>

#include "planner/plan/plan_error.h"
#include "planner/schedule/schedule.h"
#include "planner/simulate/simulate.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;
using testing::make_profile;
using testing::ones;
using testing::scheduled;
using testing::stages_of;

// The trace of one schedule says what the others take: the costs that made it, asked directly, are the truth.
TEST(RecordedRun, PredictsOtherSchedulesAsTheCostsThatMadeTheTrace) {
  std::mt19937 random(48);
  for (int round = 0; round < 60; ++round) {
    const int stages = 2 + round % 4;
    const int m = 4 + static_cast<int>(random() % 8);
    std::vector<double> factors;
    for (int s = 0; s < stages; ++s) factors.push_back(std::uniform_real_distribution<double>(0.5, 2)(random));
    const double latency_s = round % 2 == 0 ? 0 : 0.0004;
    const CostModel cost(make_profile({.layers = stages, .devices = stages, .latency_s = latency_s}, factors));
    const Plan shape = stages_of(stages, std::vector<int>(as_index(stages), 1), ones(m));
    const Simulation made = simulate(scheduled(shape, round % 3 == 0 ? "gpipe" : "1f1b"), cost);
    const RecordedRun run = recorded_run(made.trace, 1, 1, "trace");
    EXPECT_NEAR(run.step_s.at(0), made.prediction.step_s, 1e-9);
    const CostModel recorded(run.profile);
    EXPECT_NEAR(predict(run.plan, recorded).step_s, made.prediction.step_s, 1e-7) << "the recorded order itself";
    for (const char* schedule : {"1f1b", "gpipe", "zb1p"}) {
      Plan plan = run.plan;
      make_schedule(plan, schedule);
      const double truth_s = predict(scheduled(shape, schedule), cost).step_s;
      EXPECT_NEAR(predict(plan, recorded).step_s, truth_s, 1e-7) << schedule << " of " << stages << " stages";
      const StepSpread spread = spread_of_steps(plan, recorded, run);
      EXPECT_NEAR(spread.median_s, truth_s, 1e-7);
      EXPECT_NEAR(spread.range95_s.low, spread.range95_s.high, 1e-7) << "nothing varies";
    }
  }
}

// Parts of a stage and of a micro-batch take their share: joined again they take what was recorded.
TEST(RecordedRun, PartsAddUp) {
  const CostModel cost(make_profile({.layers = 3, .devices = 3}, {1, 2, 1.5}));
  const Plan plan = scheduled(stages_of(3, {1, 1, 1}, ones(4)), "1f1b");
  const Trace trace = simulate(plan, cost).trace;
  const RecordedRun whole = recorded_run(trace, 1, 1, "trace"), parts = recorded_run(trace, 4, 6, "trace");
  EXPECT_EQ(parts.profile.layers.size(), 12U);
  EXPECT_EQ(parts.plan.global_batch_size(), 24);
  EXPECT_EQ(parts.stage_of_layer, (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_NEAR(predict(parts.plan, CostModel(parts.profile)).step_s, predict(whole.plan, CostModel(whole.profile)).step_s, 1e-7);
}

// Two recordings with the same noise, drawn anew, give the same range within some percent.
TEST(RecordedRun, TheRangeIsThatOfTheNoise) {
  std::mt19937 random(5);
  const CostModel cost(make_profile({.layers = 3, .devices = 3}));
  const Plan plan = scheduled(stages_of(3, {1, 1, 1}, ones(32)), "1f1b");
  std::lognormal_distribution<double> noise(0, 0.2);
  std::vector<StepSpread> spreads;
  for (int recording = 0; recording < 2; ++recording) {
    RecordedRun run = recorded_run(simulate(plan, cost).trace, 1, 1, "trace");
    for (RecordedRun::Jitter& jitter : run.jitter) {
      for (std::vector<double>* ratios : {&jitter.forward, &jitter.backward}) {
        ratios->resize(500);
        for (double& ratio : *ratios) ratio = noise(random);
      }
    }
    const CostModel recorded(run.profile);
    const StepSpread spread = spreads.emplace_back(spread_of_steps(run.plan, recorded, run));
    EXPECT_LT(spread.range95_s.low, spread.median_s);
    EXPECT_GT(spread.range95_s.high, spread.median_s);
    EXPECT_GT(spread.median_s, predict(run.plan, recorded).step_s) << "noise delays more than it hastens";
    EXPECT_EQ(spread_of_steps(run.plan, recorded, run).median_s, spread.median_s) << "the same draws";
  }
  EXPECT_NEAR(spreads[0].range95_s.low, spreads[1].range95_s.low, 0.03 * spreads[0].median_s);
  EXPECT_NEAR(spreads[0].range95_s.high, spreads[1].range95_s.high, 0.03 * spreads[0].median_s);
}

TEST(RecordedRun, RefusesTracesWithoutStages) {
  Trace trace;
  trace.devices.emplace_back().name = "cuda:0";
  try {
    (void)recorded_run(trace, 1, 1, "trace");
    FAIL();
  } catch (const PlanError& error) {
    EXPECT_THAT(error.problem(), HasSubstr("which stage and micro-batch"));
  }
}

}  // namespace
}  // namespace mptune::planner

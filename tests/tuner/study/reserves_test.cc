// What a run of tune knows, and what it leaves for later phases. A worker costs 1 s here: a series of n plans begins after 1 + (n - 1) / 2
// s.
#include "tuner/study/reserves.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/tuning_state.h"

namespace mptune::tuner {
namespace {

constexpr double kForEver = std::numeric_limits<double>::infinity();

Plan on_all_cores() {
  Plan plan = testing::fake_plan(0, 1);
  plan.devices = {"cpu:0-1"};
  return plan;
}

Trial ended(const std::string& name, const Plan& plan, const Outcome& outcome) {
  return {.name = name, .plan_key = plan_key(plan), .plan = plan, .prediction = {}, .outcome = outcome};
}

void add_measured(TuningState& state, const std::string& name, const Plan& plan, double step_s) {
  state.trials.push_back(ended(name, plan, Measured{samples_of({step_s, step_s}), {100}, 0}));
  if (name != kCandidateName) state.baselines.push_back({name, plan});
}

TuningState one_device_and_all_cores() {
  TuningState state;
  state.profile = testing::fake_profile({});
  state.times = TrialTimes(1);
  add_measured(state, planner::kSingleDeviceBaseline, testing::fake_plan(0, 1), 2.0);
  add_measured(state, "all_cores", on_all_cores(), 1.2);
  return state;
}

TEST(Reserves, ABaselineLeavesARoundWithItAndAVerdictOnTheLeadingPlans) {
  TuningState state = one_device_and_all_cores();
  add_measured(state, kCandidateName, testing::fake_plan(5, 4), 1.0);
  add_measured(state, planner::kNaiveBaseline, testing::fake_plan(4, 1), 2.1);
  const double verdict_s = 2 + 5 * (2.0 + 1.2 + 1.0);
  EXPECT_NEAR(series_after_baseline_s(state, 1), verdict_s, 1e-9) << "four rounds and a warm-up of all but the naive plan";
  EXPECT_NEAR(series_after_baseline_s(state, 20), 2.5 + 2 * (2.0 + 1.2 + 1.0 + 2.1 + 20), 1e-9) << "a round and a warm-up of all";
}

TEST(Reserves, TheFirstCandidateOfAKindMayLeaveFewerRounds) {
  TuningState state = one_device_and_all_cores();
  EXPECT_NEAR(series_after_candidate_s(state, testing::fake_plan(4, 4)), 1.5 + 7 * 3.2, 1e-9);
  EXPECT_NEAR(series_after_candidate_s(state, testing::fake_plan(0, 4)), 1.5 + 13 * 3.2, 1e-9) << "one device was tried as a baseline";
  add_measured(state, kCandidateName, testing::fake_plan(5, 4), 1.0);
  EXPECT_NEAR(series_after_candidate_s(state, testing::fake_plan(4, 4)), 2 + 13 * 4.2, 1e-9);
}

TEST(Reserves, TracesHaveAShareOfTheBudgetUnlessAFinishedStudyPromisedThem) {
  TuningState state = one_device_and_all_cores();
  add_measured(state, kCandidateName, testing::fake_plan(5, 4), 1.5);
  add_measured(state, planner::kNaiveBaseline, testing::fake_plan(4, 1), 2.1);
  // A worker and 12 steps each, a quarter more: of all cores, the pipeline, the naive plan.
  const double fastest_s = 1.25 * (1 + 12 * 1.2), pipeline_s = 1.25 * (1 + 12 * 1.5), naive_s = 1.25 * (1 + 12 * 2.1);
  const auto budget_of = [](double traces_s) { return traces_s / 0.15; };
  EXPECT_NEAR(reserve_for_traces_s(state, budget_of(fastest_s + pipeline_s + naive_s + 1)), fastest_s + pipeline_s + naive_s, 1e-9);
  EXPECT_NEAR(reserve_for_traces_s(state, budget_of(fastest_s + pipeline_s + 1)), fastest_s + pipeline_s, 1e-9);
  EXPECT_NEAR(reserve_for_traces_s(state, budget_of(fastest_s + 1)), fastest_s, 1e-9);
  EXPECT_EQ(reserve_for_traces_s(state, budget_of(fastest_s - 1)), 0);
  state.needs_final = false;
  EXPECT_NEAR(reserve_for_traces_s(state, 1), fastest_s + pipeline_s + naive_s, 1e-9);
}

TEST(Reserves, APipelineThatIsTheFastestPlanIsTracedOnce) {
  TuningState state = one_device_and_all_cores();
  add_measured(state, planner::kNaiveBaseline, testing::fake_plan(4, 1), 2.1);
  add_measured(state, kCandidateName, testing::fake_plan(5, 4), 1.0);
  EXPECT_NEAR(reserve_for_traces_s(state, 1000), 1.25 * (1 + 12 * 1.0) + 1.25 * (1 + 12 * 2.1), 1e-9);
}

TEST(TuningState, StepsAreExpectedToTakeAsMuchLongerAsThoseOfThisRun) {
  TuningState state = one_device_and_all_cores();
  Prediction prediction;
  prediction.step_s = 3;
  EXPECT_EQ(expected_step_s(state, prediction), 3) << "no trial was predicted";
  state.trials[0].prediction = state.trials[1].prediction = Prediction{};
  state.trials[0].prediction->step_s = 1;    // took 2
  state.trials[1].prediction->step_s = 1.2;  // took 1.2
  EXPECT_NEAR(expected_step_s(state, prediction), 4.5, 1e-9) << "the median of twice and once";
  EXPECT_EQ(expected_step_s(state, std::nullopt), 0);
  state.earlier = 1;
  EXPECT_NEAR(expected_step_s(state, prediction), 3, 1e-9) << "the machine may have been slower then";
  state.trials[1].prediction->step_s = 10;
  EXPECT_EQ(expected_step_s(state, prediction), 3) << "never shorter than predicted";
}

std::vector<std::string> names_to_try(const TuningState& state, double left_s) {
  std::vector<std::string> names;
  for (const planner::NamedPlan* baseline : baselines_to_try(state, left_s)) names.push_back(baseline->name);
  return names;
}

TEST(TuningState, WhereTimeIsShortTheFastestBaselinesComeFirst) {
  TuningState state;
  state.profile = testing::fake_profile({});
  state.baselines = planner::baseline_plans(testing::fake_space({}), testing::FakeMachine{}.layers);
  std::vector<std::string> in_order;
  for (const planner::NamedPlan& baseline : state.baselines) in_order.push_back(baseline.name);
  EXPECT_EQ(names_to_try(state, kForEver), in_order);
  const auto by_time = baselines_to_try(state, 0);
  ASSERT_EQ(by_time.size(), in_order.size());
  EXPECT_NE(names_to_try(state, 0), in_order);
  for (std::size_t i = 1; i < by_time.size(); ++i) {
    EXPECT_LE(prediction_of(by_time[i - 1]->plan, state.profile)->step_s, prediction_of(by_time[i]->plan, state.profile)->step_s);
  }
}

TEST(TuningState, APlanIsTriedAgainOnlyWhereItsFailureMayBeGone) {
  TuningState state;
  state.profile = testing::fake_profile({});
  const Plan one_device = testing::fake_plan(0, 1), naive = testing::fake_plan(4, 1);
  state.baselines = {{planner::kSingleDeviceBaseline, one_device}, {planner::kNaiveBaseline, naive}};
  EXPECT_TRUE(awaits_first_trial(state));
  EXPECT_EQ(names_to_try(state, kForEver), (std::vector<std::string>{planner::kSingleDeviceBaseline, planner::kNaiveBaseline}));
  state.trials = {ended(planner::kSingleDeviceBaseline, one_device, OutOfMemory{}), ended(planner::kNaiveBaseline, naive, TimedOut{})};
  EXPECT_TRUE(awaits_first_trial(state));
  EXPECT_TRUE(names_to_try(state, kForEver).empty());
  state.retry = {plan_key(naive)};
  EXPECT_EQ(names_to_try(state, kForEver), std::vector<std::string>{planner::kNaiveBaseline});
  EXPECT_EQ(own_step_s(state, naive), 0);
  add_measured(state, kCandidateName, naive, 2.0);
  EXPECT_TRUE(names_to_try(state, kForEver).empty()) << "it was measured since";
  EXPECT_EQ(own_step_s(state, naive), 2.0);
  EXPECT_FALSE(awaits_first_trial(state));
}

}  // namespace
}  // namespace mptune::tuner

#include "tuner/study/recommend/kinds.h"

#include <gmock/gmock.h>

#include <cmath>

#include "planner/plan/file/plan_file.h"
#include "planner/search/search.h"
#include "reports/render/recommendation_text.h"
#include "tests/support/tuner_fakes.h"
#include "tuner/study/recommend/finalists.h"

namespace mptune::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Plan plan_on(const std::vector<std::string>& devices, const std::vector<int>& replicas, int microbatches) {
  PlanOptions options;
  options.devices = devices;
  options.batch = 16;
  options.layers = 8;
  options.replicas = replicas;
  options.microbatches = microbatches;
  return make_plan(options);
}

const std::vector<std::string> kFour = {"cpu:0", "cpu:1", "cpu:2", "cpu:3"};

// Measured in `rounds` rounds with the same small disturbances for all.
Trial trial_of(const std::string& name, const Plan& plan, double step_s, std::int64_t peak_bytes, int rounds = 12) {
  Trial trial;
  trial.name = name;
  trial.plan = plan;
  trial.plan_key = plan_key(plan);
  Prediction prediction;
  prediction.step_s = 0.9 * step_s;
  prediction.peak_bytes.assign(plan.devices.size(), 3 * peak_bytes);
  trial.prediction = prediction;
  Measured measured;
  measured.peak_bytes.assign(plan.devices.size(), peak_bytes);
  for (int r = 0; r < rounds; ++r) measured.step_s.values.push_back({step_s * (1 + 0.001 * (r % 3)), r, 0, 0.0});
  trial.outcome = measured;
  return trial;
}

// Four devices; a hybrid is fastest, the pipeline smallest.
std::vector<Trial> interleaved_trials() {
  return {trial_of("single_device", plan_on({"cpu:0"}, {1}, 1), 1.0, 400), trial_of("all_cores", plan_on({"cpu:0-3"}, {1}, 1), 0.5, 400),
          trial_of("data_parallel", plan_on(kFour, {4}, 4), 0.36, 200), trial_of("candidate", plan_on(kFour, {1, 1, 1, 1}, 8), 0.4, 100),
          trial_of("candidate", plan_on(kFour, {2, 1, 1}, 8), 0.3, 150)};
}

KindFacts facts() {
  KindFacts known;
  known.whole_machine = {"cpu:0-3"};
  return known;
}

KindComparison compared(const std::vector<Trial>& finals, const std::vector<Trial>& all, const KindFacts& known) {
  const auto recommendation = recommend(finals, 400);
  EXPECT_TRUE(recommendation);
  return compare_kinds(recommendation->recommended, finals, all, known);
}

TEST(Kinds, EachPlanHasOne) {
  const std::vector<std::string> whole = {"cpu:0-3"};
  std::vector<std::string> names;
  for (const Trial& trial : interleaved_trials()) names.emplace_back(to_string(planner::parallelism_of(trial.plan, whole)));
  EXPECT_THAT(names, ElementsAre("one_device", "all_cores", "data_parallel", "pipeline", "hybrid"));
  EXPECT_EQ(planner::parallelism_of(plan_on({"cpu:0-3"}, {1}, 1)), planner::Parallelism::one_device)
      << "a device like others where it is not all of them";
}

TEST(Kinds, ARowPerKindInOrderWithWhatTheSamplesSay) {
  const KindComparison kinds = compared(interleaved_trials(), interleaved_trials(), facts());
  ASSERT_EQ(kinds.rows.size(), 5U);
  const double ratios[] = {1, 2, 1 / 0.36, 2.5, 1 / 0.3};
  for (std::size_t i = 0; i < 5; ++i) {
    const KindResult& row = kinds.rows[i];
    EXPECT_EQ(row.kind, planner::kParallelisms[i]);
    EXPECT_EQ(reports::text_of(row.why_not), "");
    EXPECT_EQ(row.best, row.kind == planner::Parallelism::hybrid);
    EXPECT_NEAR(row.over_one_device->estimate, ratios[i], 1e-9);
    EXPECT_NEAR(row.over_best->estimate, 0.3 * ratios[i], 1e-9);
    EXPECT_EQ(row.over_best->verdict, row.best ? Verdict::same : Verdict::slow);
    EXPECT_EQ(row.peak_bytes.size(), i < 2 ? 1U : 4U);
  }
  EXPECT_THAT(reports::texts_of(kinds.advice),
              ElementsAre("hybrid is fastest here, 3.33 times as fast as one device; next is data parallel, 20 % slower",
                          "to save memory: pipeline needs 33 % less on its fullest device; its step takes 33 % longer"));
}

TEST(Kinds, WhatCannotBeToldApartIsSaid) {
  std::vector<Trial> finals = interleaved_trials();
  finals[2] = trial_of("data_parallel", plan_on(kFour, {4}, 4), 0.302, 150);
  const KindComparison kinds = compared(finals, finals, facts());
  EXPECT_THAT(reports::text_of(kinds.advice.at(0)), HasSubstr(" is among the fastest here"));
  EXPECT_THAT(reports::text_of(kinds.advice.at(0)), HasSubstr("; no measurable difference to "));
  EXPECT_THAT(reports::text_of(kinds.advice.at(0)), HasSubstr("next is pipeline, 32 % slower"));
}

TEST(Kinds, WhatWasMeasuredTooSeldomIsNotCalledAlike) {
  std::vector<Trial> finals;
  for (const Trial& trial : interleaved_trials())
    finals.push_back(trial_of(trial.name, trial.plan, trial.prediction->step_s / 0.9, 100, 3));
  const KindComparison kinds = compared(finals, finals, facts());
  EXPECT_EQ(reports::text_of(kinds.advice.at(0)),
            "hybrid had the shortest steps; too few rounds for a verdict on data parallel, pipeline, all cores, one device")
      << "neither fastest nor so many times as fast as one device, which is not known";
}

TEST(Kinds, FewRoundsDecideWhatLiesApart) {
  std::vector<Trial> finals;
  for (const Trial& trial : interleaved_trials())
    finals.push_back(trial_of(trial.name, trial.plan, trial.prediction->step_s / 0.9, 100, 4));
  const KindComparison kinds = compared(finals, finals, facts());
  EXPECT_EQ(reports::text_of(kinds.advice.at(0)),
            "hybrid is fastest here, 3.33 times as fast as one device; next is data parallel, 20 % slower");
  for (const KindResult& row : kinds.rows) EXPECT_FALSE(row.step_ci95_s) << to_string(row.kind);
}

TEST(Kinds, AVerdictAndItsIntervalAreThoseOfTheBaseline) {
  std::vector<Trial> finals = interleaved_trials();
  auto& steps = std::get<Measured>(finals[2].outcome).step_s.values;  // data parallel, near the hybrid
  for (std::size_t r = 0; r < steps.size(); ++r) steps[r].value = 0.3 * (0.99 + 0.01 * static_cast<double>(r));
  const auto recommendation = recommend(finals, 400);
  const KindComparison kinds = compare_kinds(recommendation->recommended, finals, finals, facts());
  const auto baseline = std::ranges::find(recommendation->baselines, "data_parallel", &BaselineResult::name);
  const KindResult& row = kinds.rows[2];
  ASSERT_TRUE(row.over_best && row.over_best->ci95 && baseline->speedup.ci95);
  EXPECT_NEAR(row.over_best->ci95->low, 1 / baseline->speedup.ci95->high, 1e-3);
  EXPECT_NEAR(row.over_best->ci95->high, 1 / baseline->speedup.ci95->low, 1e-3);
}

TEST(Kinds, TheRowOfTheRecommendedKindIsTheRecommendedPlan) {
  std::vector<Trial> finals = interleaved_trials();
  // As fast within the noise, in less memory: recommended, though another hybrid's median is less.
  finals.push_back(trial_of("candidate", plan_on(kFour, {1, 2, 1}, 8), 0.3003, 100));
  const KindComparison kinds = compared(finals, finals, facts());
  EXPECT_EQ(kinds.rows.back().trial->plan_key, finals.back().plan_key);
  EXPECT_TRUE(kinds.rows.back().best);
}

TEST(Kinds, RowsThatCouldNotBeSayWhy) {
  const std::vector<Trial> all = interleaved_trials();
  std::vector<Trial> trials = all;
  trials[0].outcome = OutOfMemory{"cpu:0", 400, 300};
  trials[3].outcome = Crashed{11, 0};
  KindFacts known = facts();
  known.predicted[planner::Parallelism::hybrid] = {"a hybrid", 0.31, {1, 2}};
  known.no_plan[planner::Parallelism::all_cores] = {.why = NoPlan::Why::needs_several_cores};
  // Tried: three of four; measured interleaved: data parallel alone, and the hybrid not even tried.
  trials.pop_back();
  trials.erase(trials.begin() + 1);
  const KindComparison kinds = compared({all[2]}, trials, known);
  EXPECT_EQ(reports::text_of(kinds.rows[0].why_not), "out of memory on cpu:0: 400 B asked with a cap of 300 B");
  EXPECT_EQ(reports::text_of(kinds.rows[1].why_not), "only several CPU cores can be one device");
  EXPECT_EQ(reports::text_of(kinds.rows[2].why_not), "");
  EXPECT_FALSE(kinds.rows[2].over_one_device) << "one device has no samples";
  EXPECT_EQ(reports::text_of(kinds.rows[3].why_not), "crashed by signal 11");
  EXPECT_EQ(reports::text_of(kinds.rows[4].why_not), "not tried: no time in the budget");
  EXPECT_EQ(kinds.rows[4].predicted_step_s, 0.31);
  EXPECT_EQ(kinds.rows[4].description, "a hybrid");
  EXPECT_THAT(reports::texts_of(kinds.advice),
              ElementsAre("data parallel is the only kind that was measured: which kind is fastest here is not known",
                          "does not fit into memory here: one device"));
}

TEST(Kinds, TriedButNotRacedIsNotCompared) {
  const std::vector<Trial> all = interleaved_trials();
  const KindComparison kinds = compared({all[0], all[4]}, all, facts());
  EXPECT_THAT(reports::text_of(kinds.rows[3].why_not), StartsWith("tried, but not in the final comparison"));
  EXPECT_NEAR(kinds.rows[3].step_s, 0.4, 0.001);
  EXPECT_FALSE(kinds.rows[3].over_best);
}

TEST(Kinds, MemoryOfSleepingDevicesIsThatOfTheProfile) {
  Plan plan = plan_on({"sleep:0", "sleep:1", "cpu:0"}, {2, 1}, 4);
  EXPECT_THAT(peak_bytes_of(trial_of("candidate", plan, 1, 100)), ElementsAre(300, 300, 100));
}

TEST(Kinds, TheSearchSaysWhatCannotBe) {
  testing::FakeMachine machine;
  machine.devices = 2;
  SearchSpace space = testing::fake_space(machine);
  const CostModel cost(testing::fake_profile(machine));
  KindFacts known = kind_facts(space, search_plans(space, cost), cost);
  EXPECT_EQ(known.predicted.size(), 4U);
  EXPECT_EQ(text_of(known.no_plan.at(planner::Parallelism::hybrid)), "needs at least 3 devices; 2 available");
  space.whole_machine.clear();
  // One device holds 64 MiB of parameters and gradients, whatever its micro-batches.
  space.memory_bytes = {50 << 20, 50 << 20};
  known = kind_facts(space, search_plans(space, cost), cost);
  EXPECT_THAT(text_of(known.no_plan.at(planner::Parallelism::one_device)), StartsWith("does not fit: needs "));
  EXPECT_THAT(text_of(known.no_plan.at(planner::Parallelism::one_device)), HasSubstr("on cpu:0, the cap is "));
  EXPECT_EQ(text_of(known.no_plan.at(planner::Parallelism::all_cores)), "only several CPU cores can be one device");
}

TEST(Kinds, DevicesThatAPoolCanBeDividedIntoCount) {
  testing::FakeMachine machine;
  machine.devices = 2;
  SearchSpace space = testing::fake_space(machine);
  const CostModel cost(testing::fake_profile(machine));
  space.divisions = {{{"cpu:0-1"}, {}}, {{"cpu:0", "cpu:1"}, {}}};
  space.devices = {"cpu:0-1"};
  const KindFacts known = kind_facts(space, search_plans(space, cost.profile()), cost);
  EXPECT_FALSE(known.no_plan.contains(planner::Parallelism::pipeline));
  EXPECT_EQ(text_of(known.no_plan.at(planner::Parallelism::hybrid)), "needs at least 3 devices; 2 available");
  EXPECT_TRUE(other_devices(space, cost.profile()).empty()) << "other numbers of devices were searched";
}

SearchSpace small_space(const testing::FakeMachine& machine) {
  SearchSpace space = testing::fake_space(machine);
  space.schedules = {"gpipe", "1f1b"};
  return space;
}

// The same search on a profile that has the devices.
TEST(Kinds, OtherNumbersOfDevicesAreSearched) {
  testing::FakeMachine machine;
  machine.devices = 3;
  machine.batch = 12;
  const auto best_s = [&](int devices) {
    testing::FakeMachine other = machine;
    other.devices = devices;
    SearchSpace space = small_space(other);
    space.whole_machine.clear();
    return search_plans(space, CostModel(testing::fake_profile(other))).ranked.front().prediction.step_s;
  };
  SearchSpace space = small_space(machine);
  const std::vector<OtherDevices> others = other_devices(space, testing::fake_profile(machine));
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(others[0].devices, 1);
  EXPECT_EQ(others[0].kind, planner::Parallelism::one_device);
  EXPECT_NEAR(others[0].step_s, best_s(1), 1e-9);
  EXPECT_EQ(others[1].devices, 6);
  EXPECT_NEAR(others[1].step_s, best_s(6), 0.01 * best_s(6)) << "within the limit of its search";
  space.recompute = "1";  // no plan of one device has a stage 1
  const std::vector<OtherDevices> recomputing = other_devices(space, testing::fake_profile(machine));
  ASSERT_EQ(recomputing.size(), 1U);
  EXPECT_EQ(recomputing[0].devices, 6);
  space.recompute.clear();
  space.stage_counts = {2};
  EXPECT_TRUE(other_devices(space, testing::fake_profile(machine)).empty());
  machine.devices = 8;
  EXPECT_EQ(other_devices(small_space(machine), testing::fake_profile(machine)).size(), 1U) << "no more than 8";
  Profile unequal = testing::fake_profile(machine);
  machine.devices = 2;
  unequal = testing::fake_profile(machine);
  unequal.classes.push_back(unequal.classes.front());
  unequal.devices[1].device_class = 2;
  const auto fewer = other_devices(small_space(machine), unequal);
  ASSERT_EQ(fewer.size(), 1U);
  EXPECT_EQ(fewer[0].devices, 1);
}

TEST(Kinds, MoreDevicesAreNeverSaidToBeSlower) {
  KindFacts known;
  known.predicted[planner::Parallelism::data_parallel] = {"data parallel over 2 devices", 0.1, {100, 100}};
  known.other_devices = {{1, planner::Parallelism::one_device, 0.18}, {4, planner::Parallelism::one_device, 0.18}};
  const KindComparison kinds = compared(interleaved_trials(), interleaved_trials(), known);
  EXPECT_EQ(reports::text_of(kinds.advice.back()),
            "predicted: 1 device like these would take 80 % longer (one device), 4 devices like these would take as long (data parallel)")
      << "two of the four can do what the two do here";
  known.predicted[planner::Parallelism::all_cores] = {"one device of 2 cores", 0.09, {200}};
  EXPECT_EQ(reports::text_of(compared(interleaved_trials(), interleaved_trials(), known).advice.back()),
            "predicted: 1 device like these would take 2.0x the time (one device), 4 devices like these would take as long (all cores)")
      << "the device of all cores is two of these";
}

TEST(Kinds, AKindThatFailedIsNotCalledSlower) {
  const std::vector<Trial> all = interleaved_trials();
  std::vector<Trial> finals = all;
  finals[2].outcome = Crashed{11, 0};
  KindComparison comparison = compared(finals, all, facts());
  EXPECT_EQ(reports::text_of(comparison.rows[2].why_not), "failed in the final comparison: crashed by signal 11");
  EXPECT_DOUBLE_EQ(comparison.rows[2].step_s, 0.36036) << "of its own trial";
  EXPECT_THAT(reports::text_of(comparison.advice[0]), HasSubstr("is the fastest kind that was measured"));
  finals.erase(finals.begin() + 2);
  comparison = compared(finals, all, facts());
  EXPECT_EQ(reports::text_of(comparison.rows[2].why_not), "tried, but not in the final comparison: no time in the budget");
  EXPECT_THAT(reports::text_of(comparison.advice[0]), HasSubstr("is fastest here"));
}

}  // namespace
}  // namespace mptune::tuner

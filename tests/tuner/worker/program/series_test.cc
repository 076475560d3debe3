#include <gtest/gtest.h>

#include "fixture.h"
#include "profiler/base/index.h"
#include "profiler/trace/statistics/samples.h"
#include "profiler/trace/store/store.h"

namespace mptune::testing {
using namespace tuner;
namespace {

class RunSeries : public WorkerTest {
 protected:
  /// Outcomes by entry, each of which must be reported exactly once.
  std::vector<Outcome> run(const TrainingSetup& setup, const std::vector<Plan>& plans, int warm_up = 1, int rounds = 3) {
    SeriesRequest request{setup, {}, monotonic_seconds()};
    for (const Plan& plan : plans) request.series.entries.push_back({"candidate", plan, {}});
    request.series.warm_up = warm_up;
    request.series.rounds = rounds;
    request.series.budget_s = 60;
    forget();
    run_series(request, replies());
    std::vector<Outcome> outcomes(plans.size(), Interrupted{});
    std::vector<int> times(plans.size(), 0);
    for (const EntryFinished& finished : all<EntryFinished>()) {
      outcomes.at(as_index(finished.entry)) = finished.outcome;
      ++times[as_index(finished.entry)];
    }
    EXPECT_EQ(times, std::vector<int>(plans.size(), 1));
    return outcomes;
  }
};

TEST_F(RunSeries, StepsAreInterleavedAbbaAndAllReported) {
  const TrainingSetup setup = setup_for("mlp:layers=4", 12);
  const auto outcomes = run(setup, {plan_for(setup, 4, 3), plan_for(setup, 4, 12, "naive")});
  std::vector<std::vector<int>> order;  // round, position, entry
  std::vector<Samples> samples(2);
  double last_start = 0;
  for (const StepTimed& step : all<StepTimed>()) {
    order.push_back({step.round, step.position, step.entry});
    EXPECT_GT(step.step_s, 0);
    EXPECT_GE(step.started_s, last_start);
    last_start = step.started_s;
    samples[as_index(step.entry)].values.push_back({step.step_s, step.round, step.position, step.started_s});
  }
  EXPECT_EQ(order, (std::vector<std::vector<int>>{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {2, 0, 0}, {2, 1, 1}}));
  std::vector<std::vector<int>> announced;  // round, entry; each plan is built, then warms up
  for (const StepStarted& step : all<StepStarted>()) announced.push_back({step.round, step.entry});
  EXPECT_EQ(announced, (std::vector<std::vector<int>>{{-1, 0}, {-1, 0}, {-1, 1}, {-1, 1}, {0, 0}, {0, 1}, {1, 1}, {1, 0}, {2, 0}, {2, 1}}));
  std::vector<double> losses;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto* measured = std::get_if<Measured>(&outcomes[i]);
    ASSERT_NE(measured, nullptr) << outcome_text(outcomes[i]);
    EXPECT_EQ(measured->step_s, samples[i]);
    ASSERT_EQ(measured->peak_bytes.size(), setup.devices.size());
    for (std::int64_t peak : measured->peak_bytes) EXPECT_GT(peak, 0);
    losses.push_back(measured->loss);
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-5) << "a plan changed the result";
}

TEST_F(RunSeries, CapOfADeviceIsOutOfMemoryThereAndTheOtherPlanRunsOn) {
  TrainingSetup setup = setup_for("mlp:layers=4,width=256", 64);
  const std::string capped = setup.devices.back();
  const Plan plan = plan_for(setup, 4, 16);
  TrainingSetup one = setup;
  one.devices.resize(1);
  constexpr std::int64_t kLayer = 256 * 256 * 4;
  // Below the weights it is the construction that fails, a little above them the first step.
  for (const std::int64_t cap : {kLayer / 2, setup.devices.size() > 1 ? kLayer * 5 / 4 : kLayer * 3}) {
    setup.memory_bytes = {{capped, cap}};
    const bool alone = setup.devices.size() == 1;
    const auto outcomes = alone ? run(setup, {plan}) : run(setup, {plan, plan_for(one, 4, 64)});
    const auto* memory = std::get_if<OutOfMemory>(&outcomes[0]);
    ASSERT_NE(memory, nullptr) << cap << ": " << outcome_text(outcomes[0]);
    EXPECT_EQ(memory->device, capped) << cap;
    EXPECT_EQ(memory->cap_bytes, cap);
    EXPECT_GT(memory->requested_bytes, 0) << cap;
    if (!alone) {
      EXPECT_TRUE(std::holds_alternative<Measured>(outcomes[1])) << outcome_text(outcomes[1]);
    }
  }
  setup.memory_bytes = {{capped, kLayer * 40}};
  EXPECT_TRUE(std::holds_alternative<Measured>(run(setup, {plan})[0]));
}

TEST_F(RunSeries, AfterItsEndNoStepBegins) {
  const TrainingSetup setup = setup_for("mlp:layers=4", 12);
  SeriesRequest request{setup, {}, monotonic_seconds()};
  for (const int microbatches : {3, 12}) request.series.entries.push_back({"candidate", plan_for(setup, 4, microbatches), {}});
  request.series.ends_s = 0;
  run_series(request, replies());
  EXPECT_TRUE(all<StepStarted>().empty());
  const auto finished = all<EntryFinished>();
  ASSERT_EQ(finished.size(), 2U) << "each plan is answered for";
  for (const EntryFinished& one : finished) EXPECT_TRUE(std::holds_alternative<Interrupted>(one.outcome)) << outcome_text(one.outcome);
}

TEST_F(RunSeries, LossThatIsNotFiniteEndsItsPlan) {
  TrainingSetup setup = setup_for("mlp", 8);
  setup.learning_rate = 1e30;
  const Plan plan = plan_for(setup, 2, 4);
  EXPECT_TRUE(std::holds_alternative<NonFinite>(run(setup, {plan}, /*warm_up=*/3)[0])) << "during warm-up";
  EXPECT_TRUE(std::holds_alternative<NonFinite>(run(setup, {plan}, /*warm_up=*/1, /*rounds=*/4)[0])) << "during the rounds";
}

TEST_F(RunSeries, MicroBatchThatBatchNormRefusesIsInfeasible) {
  TrainingSetup setup = setup_for("resnet18", 2, 1);
  setup.input = "3x32x32";
  const auto outcomes = run(setup, {plan_for(setup, 10, 1), plan_for(setup, 10, 2)}, 1, 1);
  const auto* infeasible = std::get_if<Infeasible>(&outcomes[0]);
  ASSERT_NE(infeasible, nullptr) << outcome_text(outcomes[0]);
  EXPECT_FALSE(infeasible->reason.empty());
  EXPECT_EQ(infeasible->reason.find('\n'), std::string::npos);
  EXPECT_TRUE(std::holds_alternative<Measured>(outcomes[1])) << outcome_text(outcomes[1]);
}

/// Three layers whose forward sleeps so long at each of the sizes of a micro-batch, and whose backward twice as long.
Profile sleeping_layers(double forward_s, int batch, const std::vector<int>& sizes) {
  Profile profile;
  profile.model = "mlp";
  profile.batch = batch;
  DeviceClass sleeping;
  sleeping.name = "sleep";
  for (const char* name : {"a", "b", "c"}) {
    LayerCosts costs;
    for (const int size : sizes) {
      LayerCost cost;
      cost.samples = size;
      cost.forward = exactly(forward_s);
      cost.backward = exactly(2 * forward_s);
      costs.by_samples.push_back(cost);
    }
    profile.layers.push_back({name, "", {}, 0, 0, 0, false});
    sleeping.layers.push_back(costs);
  }
  profile.edges = {{0, 1, 64, 0, true}, {1, 2, 64, 0, true}};
  profile.classes = {sleeping};
  for (const char* name : {"sleep:0", "sleep:1", "sleep:2"}) profile.devices.push_back({name, 0, 0});
  return profile;
}

class RunSleepingSeries : public RunSeries {
 protected:
  TrainingSetup setup_of(const Profile& profile, int devices) {
    profiler::Recording recording;
    recording.profile = profile;
    profiler::write_recording(recording, path("profile.sqlite"), false);
    TrainingSetup setup = setup_for("mlp", profile.batch);
    setup.devices.clear();
    for (int d = 0; d < devices; ++d) setup.devices.push_back(profile.devices.at(as_index(d)).name);
    setup.sleep_profile = path("profile.sqlite");
    return setup;
  }
};

TEST_F(RunSleepingSeries, StepsTakeAtLeastWhatTheProfileSays) {
  const TrainingSetup setup = setup_of(sleeping_layers(1e-3, 4, {1}), 3);
  const auto outcomes = run(setup, {plan_for(setup, 3, 1, "gpipe")});
  const auto* measured = std::get_if<Measured>(&outcomes[0]);
  ASSERT_NE(measured, nullptr) << outcome_text(outcomes[0]);
  // K stages of equal length and m micro-batches: (m + K - 1) (f + b).
  for (const Sample& sample : measured->step_s.values) EXPECT_GE(sample.value, (4 + 3 - 1) * 3e-3 - 1e-6);
}

// A micro-batch sleeps as long whatever its size, so five of one sample take five times as long as one of five. Beside other work one of
// the two equal plans may be behind in every round and leave, too, which ends the series: then it is run again.
TEST_F(RunSleepingSeries, APlanFarBehindLeavesAndTheOthersGoOn) {
  const TrainingSetup setup = setup_of(sleeping_layers(3e-3, 5, {1, 5}), 1);
  constexpr int kSlow = 1;
  SeriesRequest request{setup, {}, monotonic_seconds()};
  for (const int split_size : {5, 1, 5}) request.series.entries.push_back({"candidate", plan_for(setup, 3, split_size, "gpipe"), {}});
  request.series.rounds = 9;
  request.series.least_rounds = 6;
  std::vector<int> steps, steps_at_first_end;
  std::vector<int> ended;  // entries, in order
  for (int tries = 0; tries < 5 && (ended.empty() || ended.front() != kSlow); ++tries) {
    steps.assign(3, 0);
    ended.clear();
    request.started_s = monotonic_seconds();
    run_series(request, [&](const Reply& reply) {
      if (const auto* step = std::get_if<StepTimed>(&reply)) ++steps.at(as_index(step->entry));
      const auto* finished = std::get_if<EntryFinished>(&reply);
      if (finished == nullptr) return;
      EXPECT_TRUE(std::holds_alternative<Measured>(finished->outcome)) << outcome_text(finished->outcome);
      if (ended.empty()) steps_at_first_end = steps;
      ended.push_back(finished->entry);
    });
    ASSERT_EQ(ended.size(), 3U) << "each plan is answered for once";
    EXPECT_EQ(steps[kSlow], std::ranges::min(steps)) << "no plan leaves before it";
  }
  EXPECT_EQ(ended[0], kSlow);
  EXPECT_EQ(steps[kSlow], steps_at_first_end[kSlow]) << "it has no step after its end";
  for (const std::size_t fast : {0U, 2U}) {
    EXPECT_GT(steps[fast], steps_at_first_end[fast]) << "the series goes on";
    EXPECT_GT(steps[fast], steps[kSlow]);
  }
}

}  // namespace
}  // namespace mptune::testing

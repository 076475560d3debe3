// The planner's choice and its predictions against every plan of a space, measured on sleeping devices: these take exactly the time that
// a profile says, so what remains is the model of schedules, links and fixed costs.
#include <gtest/gtest.h>

#include <random>

#include "mptune/profiler/measure/sleep_model.h"
#include "mptune/tests/benchmarks/sleeping_devices.h"
#include "mptune/tests/benchmarks/sweep.h"

namespace mptune {
namespace {

struct SweepErrors {
  double sum = 0;
  double largest = 0;
  std::string worst;
};

SweepErrors errors_of(const std::vector<SweptPlan>& all) {
  SweepErrors errors;
  for (const SweptPlan& swept : all) {
    const double error = error_beyond_interval(swept);
    errors.sum += error;
    if (error <= errors.largest) continue;
    errors.largest = error;
    errors.worst = describe(swept.plan);
  }
  return errors;
}

class SleepSweep : public testing::TestWithParam<int> {};

TEST_P(SleepSweep, TheChoiceIsTheFastestAndPredictionsHold) {
  const int devices = GetParam();
  const int batch = 8;
  std::mt19937 random(static_cast<unsigned>(devices));
  Profile profile = sleep_profile(random, devices + 1, batch, 1e-3, 4e-3);
  measure_fixed(profile, devices);
  const CostModel cost(profile);
  const SearchSpace space = sweep_space(parse_devices("sleep:" + std::to_string(devices)), batch, {2, 4, 8});
  std::vector<SweptPlan> all = every_plan(space, cost);
  const std::size_t choice = planners_choice(all, space, cost);
  Sweep sweep{[&] { return make_sleep_model(profile); }, synthetic_batch(make_sleep_model(profile).sample(), batch, 0)};
  sweep.rounds = 4;
  sweep.doubtful = [](const SweptPlan& swept) { return error_beyond_interval(swept) > 0.01; };
  sweep.run(all, choice);

  const SweepErrors errors = errors_of(all);
  RecordProperty("mean_error_percent", std::to_string(100 * errors.sum / static_cast<double>(all.size())));
  RecordProperty("largest_error_percent", std::to_string(100 * errors.largest));
  EXPECT_LT(errors.sum / static_cast<double>(all.size()), 0.02);
  EXPECT_LT(errors.largest, 0.05) << errors.worst;
  const std::size_t best = fastest_of(all);
  if (best == choice) return;
  const Speedup behind = paired_speedup(all[choice].step_s, all[best].step_s);
  EXPECT_LE(behind.ci95.low, 1.01) << "chosen: " << describe(all[choice].plan) << "; faster: " << describe(all[best].plan);
}

INSTANTIATE_TEST_SUITE_P(Slow, SleepSweep, testing::Range(2, 9), testing::PrintToStringParamName());

}  // namespace
}  // namespace mptune

// The planner's choice and its predictions against every plan of a space, measured on sleeping devices: these take exactly the time that
// a profile says, so what remains is the model of schedules, links and fixed costs.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "planner/plan/plan_words.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/precise_sleep.h"
#include "profiler/measure/sleep_model.h"
#include "tests/benchmarks/sleeping_devices.h"
#include "tests/benchmarks/sweep.h"

namespace mptune::tuner {
namespace {

// 0.9 quantile of how late a sleep of a millisecond ends while another thread sleeps as well.
double lateness_s() {
  const auto sleeps = [](std::vector<double>& late) {
    profiler::make_timers_exact();
    for (int i = 0; i < 100; ++i) {
      const auto until = profiler::SteadyClock::now() + std::chrono::milliseconds(1);
      profiler::sleep_until(until);
      late.push_back(std::chrono::duration<double>(profiler::SteadyClock::now() - until).count());
    }
  };
  std::vector<double> here, there;
  std::thread other([&] { sleeps(there); });
  sleeps(here);
  other.join();
  here.insert(here.end(), there.begin(), there.end());
  std::ranges::nth_element(here, here.begin() + 180);
  return here[180];
}

struct SweepResult {
  double mean_error = 0;
  double largest_error = 0;
  std::string worst;
  double behind = 1;  // least ratio of the choice's step over the fastest one's in a round
  std::string fastest;

  [[nodiscard]] bool holds() const { return mean_error < 0.02 && largest_error < 0.05 && behind <= 1.01; }
  [[nodiscard]] std::string text() const {
    return "mean error " + std::to_string(100 * mean_error) + " %, largest " + std::to_string(100 * largest_error) + " % of " + worst +
           "; the choice takes at least " + std::to_string(behind) + " times as long as " + fastest;
  }
};

SweepResult sweep_once(const Profile& profile, int devices, int batch) {
  const CostModel cost(profile);
  const SearchSpace space = testing::sweep_space(parse_devices("sleep:" + std::to_string(devices)), batch, {2, 4, 8});
  std::vector<testing::SweptPlan> all = testing::every_plan(space, cost);
  const std::size_t choice = testing::planners_choice(all, space, cost);
  testing::Sweep sweep{[&] { return profiler::make_sleep_model(profile); },
                       synthetic_batch(profiler::make_sleep_model(profile).sample(), batch, 0)};
  sweep.rounds = 4;
  sweep.within = 1.05;
  sweep.unreliable = [](const testing::SweptPlan& swept) { return testing::error_beyond_interval(swept) > 0.01; };
  sweep.run(all, choice);
  SweepResult result;
  for (const testing::SweptPlan& swept : all) {
    const double error = testing::error_beyond_interval(swept);
    result.mean_error += error / static_cast<double>(all.size());
    if (error > result.largest_error) result.worst = describe(swept.plan);
    result.largest_error = std::max(result.largest_error, error);
  }
  const std::size_t fastest = testing::fastest_of(all);
  result.fastest = describe(all[fastest].plan);
  if (fastest != choice) result.behind = paired_speedup(all[choice].step_s, all[fastest].step_s).range.value_or(Interval{1, 1}).low;
  return result;
}

class SleepSweep : public ::testing::TestWithParam<int> {};

// What else runs on the machine can only lengthen steps: the claim is one of a machine left alone, so a sweep that fails is made again, and
// where sleeps end late after every one of them the machine was never left alone. Even then predictions are near.
TEST_P(SleepSweep, TheChoiceIsTheFastestAndPredictionsHold) {
  const int devices = GetParam();
  const int batch = 8;
  constexpr int kAttempts = 3;
  SweepResult result;
  int disturbed = 0;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::mt19937 random(static_cast<unsigned>(devices));
    Profile profile = testing::sleep_profile(random, devices + 1, batch, 1e-3, 4e-3);
    testing::measure_fixed(profile, devices);
    result = sweep_once(profile, devices, batch);
    if (result.holds()) break;
    if (lateness_s() > 1e-4) ++disturbed;
  }
  RecordProperty("sweep", result.text());
  ASSERT_LT(result.mean_error, 0.10) << result.text();
  if (!result.holds() && disturbed == kAttempts) {
    GTEST_SKIP() << "this machine is busy: sleeps end late; " << result.text();
  }
  EXPECT_TRUE(result.holds()) << result.text();
}

INSTANTIATE_TEST_SUITE_P(NightlyTimed, SleepSweep, ::testing::Values(2, 8), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace mptune::tuner

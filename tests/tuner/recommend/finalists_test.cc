#include "tuner/finalists.h"

#include <gtest/gtest.h>

#include "planner/plan_file.h"
#include "tests/support/tuner_fakes.h"

namespace mptune::tuner {
namespace {

TEST(Finalists, ReasonsForASeat) {
  std::vector<Trial> trials;
  const auto add = [&](const Plan& plan, double step_s, std::int64_t peak) {
    Trial trial;
    trial.plan = plan;
    trial.plan_key = plan_key(plan);
    trial.outcome = Measured{samples_of({step_s, step_s}), {peak}, 0};
    trials.push_back(trial);
  };
  add(testing::fake_plan(0, 1), 1.0, 100);  // baseline, fastest
  add(testing::fake_plan(4, 4), 1.3, 60);   // best pipeline
  add(testing::fake_plan(3, 8), 1.4, 40);   // best in half the memory
  add(testing::fake_plan(0, 4), 1.04, 90);  // runner-up
  add(testing::fake_plan(2, 8), 1.5, 45);   // no reason
  const std::vector<NamedPlan> baselines{{"single_device", testing::fake_plan(0, 1)}, {"gone", testing::fake_plan(6, 2)}};
  const auto entries = choose_finalists(trials, baselines, 100);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "single_device");
  EXPECT_EQ(entries[1].plan, testing::fake_plan(4, 4));
  EXPECT_EQ(entries[2].plan, testing::fake_plan(3, 8));
  EXPECT_EQ(entries[3].plan, testing::fake_plan(0, 4));
}

}  // namespace
}  // namespace mptune::tuner

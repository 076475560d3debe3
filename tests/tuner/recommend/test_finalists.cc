#include "mptune/tuner/finalists.h"

#include <gtest/gtest.h>

#include "mptune/planner/plan_file.h"
#include "mptune/tests/support/tuner_fakes.h"

namespace mptune {
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
  add(fake_plan(0, 1), 1.0, 100);  // baseline, fastest
  add(fake_plan(4, 4), 1.3, 60);   // best pipeline
  add(fake_plan(3, 8), 1.4, 40);   // best in half the memory
  add(fake_plan(0, 4), 1.04, 90);  // runner-up
  add(fake_plan(2, 8), 1.5, 45);   // no reason
  const std::vector<NamedPlan> baselines{{"single_device", fake_plan(0, 1)}, {"gone", fake_plan(6, 2)}};
  const auto entries = choose_finalists(trials, baselines, 100);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "single_device");
  EXPECT_EQ(entries[1].plan, fake_plan(4, 4));
  EXPECT_EQ(entries[2].plan, fake_plan(3, 8));
  EXPECT_EQ(entries[3].plan, fake_plan(0, 4));
}

}  // namespace
}  // namespace mptune

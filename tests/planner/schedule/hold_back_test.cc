// Forwards that can wait do, and the step stays as short.
#include "planner/schedule/hold_back.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

ScheduleCosts textbook(const Plan& plan) {
  return {std::vector<StageCosts>(plan.stages.size()), {}};
}

TEST(HoldBack, OfAllForwardsFirstLeavesTheTextbooksWarmUps) {
  for (int devices = 1; devices <= 5; ++devices) {
    Plan plan = testing::mapped("gpipe", devices, 1, 4 * devices);
    const ScheduleCosts costs = textbook(plan);
    const std::int64_t before = time_schedule(plan, costs).end_ns;
    plan.actions = held_back(Layout(plan), costs, plan.actions);
    validate_schedule(plan, "");
    EXPECT_EQ(time_schedule(plan, costs).end_ns, before);
    EXPECT_LE(most_in_flight(plan, 0), 2 * devices);
    EXPECT_EQ(most_in_flight(plan, devices - 1), 1);
  }
}

TEST(HoldBack, NeverSlowsTheStepNorSavesMore) {
  int less = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    const char* const names[] = {"gpipe", "1f1b", "interleaved", "zb2p", "zbv", "looped-bfs"};
    const std::string name = names[up_to(5)];
    Plan plan = testing::mapped(name, 2 + up_to(2), testing::stages_per_device(name, name == "gpipe" ? 1 : 2), 1 + up_to(9));
    ScheduleCosts costs = textbook(plan);
    for (StageCosts& stage : costs.stages)
      stage = {10 + up_to(90), 20 + up_to(90), 10 + up_to(40), 10 + up_to(40), 1 + up_to(9), 1 + up_to(9), up_to(60), up_to(60), 0};
    const std::int64_t before = time_schedule(plan, costs).end_ns;
    const std::vector<std::int64_t> saved = most_saved_bytes(plan, costs);
    plan.actions = held_back(Layout(plan), costs, plan.actions);
    ASSERT_NO_THROW(validate_schedule(plan, "")) << seed;
    EXPECT_LE(time_schedule(plan, costs).end_ns, before) << name << " " << seed;
    const std::vector<std::int64_t> now = most_saved_bytes(plan, costs);
    for (std::size_t d = 0; d < now.size(); ++d) {
      EXPECT_LE(now[d], saved[d]) << name << " " << seed;
      less += now[d] < saved[d] ? 1 : 0;
    }
  }
  EXPECT_GT(less, 50);
}

TEST(HoldBack, ListKeepsNoMoreThanZb1pNeedsForAStepAsShort) {
  for (int devices = 2; devices <= 4; ++devices) {
    const Plan list = testing::mapped("list", devices, 1, 33), zb1p = testing::mapped("zb1p", devices, 1, 33);
    const ScheduleCosts costs = textbook(list);
    EXPECT_LE(time_schedule(list, costs).end_ns, time_schedule(zb1p, costs).end_ns) << devices;
    for (int s = 0; s < devices; ++s) EXPECT_LE(most_in_flight(list, s), most_in_flight(zb1p, s)) << devices << " stage " << s;
  }
}

}  // namespace
}  // namespace mptune::planner

#include "mptune/planner/schedule/schedule_info.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mptune/planner/schedule/schedule.h"
#include "mptune/profiler/base/error.h"
#include "mptune/tests/planner/schedule/mapped.h"

namespace mptune {
namespace {

bool splits_backward(const Plan& plan) {
  return std::ranges::any_of(plan.actions, [](const std::vector<Action>& row) {
    return std::ranges::any_of(row, [](const Action& action) { return action.kind == ActionKind::backward_weight; });
  });
}

TEST(ScheduleInfo, IsFoundByItsName) {
  for (const ScheduleInfo& schedule : schedules()) EXPECT_EQ(&schedule_info(schedule.name), &schedule);
  EXPECT_EQ(find_schedule("zigzag"), nullptr);
  EXPECT_THROW((void)schedule_info("zigzag"), Error);
}

TEST(ScheduleInfo, SaysWhichSchedulesSplitTheBackwardPass) {
  for (const ScheduleInfo& schedule : schedules()) {
    if (schedule.rows_from == RowsFrom::search) continue;
    for (int devices = 1; devices <= 5; ++devices) {
      for (int m = 1; m <= (schedule.one_microbatch ? 1 : 12); ++m) {
        const Plan plan = test::mapped(schedule.name, devices, schedule.least_virtual_stages, m);
        EXPECT_EQ(splits_backward(plan), schedule.splits_backward) << schedule.name << " " << devices << " " << m;
      }
    }
  }
}

}  // namespace
}  // namespace mptune

#include "planner/schedule/schedule_info.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

TEST(ScheduleInfo, IsFoundByItsName) {
  for (const ScheduleInfo& schedule : schedules()) EXPECT_EQ(&schedule_info(schedule.name), &schedule);
  EXPECT_EQ(find_schedule("zigzag"), nullptr);
  EXPECT_THROW((void)schedule_info("zigzag"), Error);
}

}  // namespace
}  // namespace mptune::planner

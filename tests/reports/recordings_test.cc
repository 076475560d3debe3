#include "reports/cli/commands/recordings.h"

#include <gtest/gtest.h>

#include "planner/plan/file/plan_json.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"
#include "tests/support/hand_trace.h"

namespace mptune::reports {
namespace {

constexpr int kLayersOfTheModel = 4;

profiler::Recording recording_of(int layers, const std::vector<std::string>& devices) {
  Plan plan;
  plan.devices = devices;
  plan.microbatch_sizes = {1, 1};
  plan.stages = {{0, 1, {0}, {}}, {1, layers, {1}, {}}};
  planner::make_schedule(plan, "gpipe");
  profiler::Recording recording;
  recording.trace = testing::hand_trace();
  recording.profile = testing::make_profile({.layers = kLayersOfTheModel});
  recording.profile->devices[0].name = "cpu:0";
  recording.profile->devices[1].name = "cpu:1";
  recording.plan_json = plan_to_json(plan, {});
  return recording;
}

TEST(Recordings, APlanOfAnotherModelIsRefused) {
  EXPECT_NO_THROW((void)report_of_recording(recording_of(kLayersOfTheModel, {"cpu:0", "cpu:1"}), "t"));
  for (const int wrong : {kLayersOfTheModel + 1, 40, 2'000'000'000})
    EXPECT_THROW((void)report_of_recording(recording_of(wrong, {"cpu:0", "cpu:1"}), "t"), Error) << wrong;
  profiler::Recording without = recording_of(2'000'000'000, {"cpu:0", "cpu:1"});
  without.profile.reset();
  EXPECT_NO_THROW((void)report_of_recording(without, "t")) << "a plan's layers cost nothing to look at";
}

TEST(Recordings, ContentsOfMemoryGoByTheDevicesNames) {
  const TraceReport straight = report_of_recording(recording_of(kLayersOfTheModel, {"cpu:0", "cpu:1"}), "t");
  const TraceReport crossed = report_of_recording(recording_of(kLayersOfTheModel, {"cpu:1", "cpu:0"}), "t");
  ASSERT_EQ(straight.memory.size(), 2U);
  EXPECT_EQ(straight.memory[0].contents, crossed.memory[1].contents);
  EXPECT_EQ(straight.memory[1].contents, crossed.memory[0].contents);
  EXPECT_NE(straight.memory[0].contents, straight.memory[1].contents);
}

}  // namespace
}  // namespace mptune::reports

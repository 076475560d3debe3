#include <gmock/gmock.h>

#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "tests/planner/profiles.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;
using testing::scheduled;
using testing::stages_of;

TEST(ScheduleText, RoundTrips) {
  const Plan plan = scheduled(stages_of(3, {1, 2, 1}, {2, 2, 2, 1}), "1f1b");
  for (const auto& row : plan.actions) EXPECT_EQ(actions_from_text(to_text(row), ""), row);
  EXPECT_EQ(schedule_from_csv(schedule_to_csv(plan.actions), ""), plan.actions);
  EXPECT_EQ(to_text(Action{12, ActionKind::backward_weight, 345}), "12W345");
}

TEST(ScheduleText, ReadsFusedWeightGradients) {
  const Action fused{0, ActionKind::backward_weight, 2, 3};
  EXPECT_EQ(to_text(fused), "0W2-5");
  EXPECT_EQ(actions_from_text("0W2-5", ""), std::vector<Action>{fused});
  EXPECT_EQ(schedule_from_csv(schedule_to_csv({{fused}}), ""), std::vector<std::vector<Action>>{{fused}});
  for (const char* text : {"0W2-2", "0W2-1", "0W2-", "0W-2", "0W1-2-3", "0W1--2", "0F1-2", "0I1-2", "0B0-1", "0W0-99999999999"})
    EXPECT_THROW((void)actions_from_text(text, "row"), Error) << text;
}

TEST(ScheduleText, ReadsCsvWithEmptyCells) {
  const auto read = schedule_from_csv("0F0,0F1,,,0B0,0B1\r\n,1F0,1F1,1B0,1B1,\n\n", "file");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_text(read[0]), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(to_text(read[1]), "1F0 1F1 1B0 1B1");
}

// What torch's own files hold (test/distributed/pipelining/artifacts): copies, shards, two at once.
TEST(ScheduleText, ReadsTorchsCells) {
  const auto read = schedule_from_csv(
      "0UNSHARD,0F0,0SEND_F0,None,0F1,(0F2;1I0)OVERLAP_F_B,\"0B1\",0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,12SEND_B13,1RECV_B0, 1W0 \n",
      "file");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_text(read[0]), "0F0 0F1 0F2 1I0 0B1");
  EXPECT_EQ(to_text(read[1]), "1F0 1W0");
}

// The rows that torch's DualPipeV makes of 4 ranks and 10 micro-batches begin and end like this.
TEST(ScheduleText, DualPipeVIsTorchs) {
  const Plan plan = testing::mapped("dualpipe-v", 4, 2, 10);
  EXPECT_THAT(to_text(plan.actions[0]),
              ::testing::StartsWith("0F0 0F1 0F2 0F3 0F4 0F5 0F6 7F0 7I0 7W0 7F1 7I1 7W1 7F2 7I2 7W2 7F3 0F7 7B3 7F4 0B0 0F8"));
  EXPECT_THAT(to_text(plan.actions[0]), ::testing::EndsWith("7B8 7F9 0B5 7B9 0I6 0W6 0I7 0W7 0I8 0W8 0I9 0W9"));
  EXPECT_THAT(to_text(plan.actions[1]), ::testing::EndsWith("6B8 1B6 6I9 1I7 6W9 1I8 1W7 1I9 1W8 1W9"));
  EXPECT_THAT(to_text(plan.actions[3]), ::testing::StartsWith("3F0 4F0 3F1 4F1 3F2 4F2 3F3 4F3 3F4 4B0 4F4 3B0 3F5 4B1"));
  EXPECT_THAT(to_text(plan.actions[3]), ::testing::EndsWith("4B7 3B7 4I8 3I8 4I9 3I9 4W8 3W8 4W9 3W9"));
}

TEST(ScheduleText, SaysHowToWriteWhatItRefuses) {
  const auto remedy = [](const char* text) -> std::string {
    try {
      (void)schedule_from_csv(text, "file");
    } catch (const Error& error) {
      EXPECT_EQ(error.where(), "file, row 2");
      return error.remedy();
    }
    return "";
  };
  EXPECT_THAT(remedy("0F0\n0f1"), HasSubstr("capital"));
  EXPECT_THAT(remedy("0F0\n1BW0"), HasSubstr("before torch 2.6"));
  EXPECT_THAT(remedy("0F0\n1SEND_F"), HasSubstr("like 0F3"));
  EXPECT_THAT(remedy("0F0\n(0F1;1B0"), HasSubstr("like 0F3"));
  EXPECT_THAT(remedy("0F0\n(0F1)OVERLAP_F_B"), HasSubstr("like 0F3"));
  EXPECT_THAT(remedy("0F0\nSEND_F0"), HasSubstr("like 0F3"));
}

TEST(ScheduleText, RefusesNonsense) {
  for (const char* text : {"0", "F0", "0F", "0X1", "0F-1", "-1F0", "0F1x", "0F99999999999999999999", "0FF1", "\x80", "0F1B2", "0.5F1"}) {
    EXPECT_THROW((void)actions_from_text(text, "row"), Error) << text;
    EXPECT_THROW((void)schedule_from_csv(text, "file"), Error) << text;
  }
  EXPECT_THROW((void)schedule_from_csv("", "file"), Error);
  EXPECT_THROW((void)schedule_from_csv("\n,,\n", "file"), Error);
  EXPECT_TRUE(actions_from_text("  ", "row").empty());
}

}  // namespace
}  // namespace mptune::planner

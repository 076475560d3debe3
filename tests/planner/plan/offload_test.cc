#include "planner/plan/offload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/plan/executable.h"
#include "planner/plan/file/plan_file.h"
#include "planner/schedule/schedule.h"
#include "profiler/base/error.h"
#include "profiler/base/index.h"
#include "tests/planner/profiles.h"

namespace mptune {
namespace {

Plan offloading(Plan plan, const std::string& schedule) {
  for (Stage& stage : plan.stages) stage.offload = true;
  return testing::scheduled(std::move(plan), schedule);
}

// 0F0 0F1 0F2 0F3 0B0 0B1 0B2 0B3: all but the last two are away for a while.
TEST(Offload, OfGpipeIsAwayBetweenItsForwardAndItsBackward) {
  const Plan plan = offloading(testing::stages_of(2, {1}, testing::ones(4)), "gpipe");
  EXPECT_EQ(planner::offloaded(plan, 0), (std::vector<planner::Offloaded>{{0, 0, 0, 4}, {0, 1, 1, 5}, {0, 2, 2, 6}, {0, 3, 3, 7}}));
}

TEST(Offload, LastStageOf1f1bHasNothingAway) {
  const Plan plan = offloading(testing::stages_of(3, {1, 1, 1}, testing::ones(6)), "1f1b");
  EXPECT_TRUE(planner::offloaded(plan, 2).empty());
  EXPECT_FALSE(planner::offloaded(plan, 0).empty());
  for (int device = 0; device < 3; ++device) {
    int before = -1;
    for (const planner::Offloaded& away : planner::offloaded(plan, device)) {
      const std::vector<Action>& row = plan.actions[as_index(device)];
      EXPECT_EQ(row[as_index(away.forward)], (Action{away.stage, ActionKind::forward, away.microbatch}));
      EXPECT_EQ(row[as_index(away.backward)], (Action{away.stage, ActionKind::backward, away.microbatch}));
      EXPECT_LT(away.freed(), away.fetched());
      EXPECT_LT(before, away.forward);
      before = away.forward;
    }
  }
}

TEST(Offload, OnlyStagesThatOffloadHaveAnythingAway) {
  Plan plan = offloading(testing::stages_of(4, {1, 1, 1, 1}, testing::ones(6), 2), "interleaved");
  plan.stages[0].offload = false;
  for (const planner::Offloaded& away : planner::offloaded(plan, 0)) EXPECT_EQ(away.stage, 2);
  EXPECT_FALSE(planner::offloaded(plan, 0).empty());
  EXPECT_TRUE(planner::offloads(plan));
  for (Stage& stage : plan.stages) stage.offload = false;
  EXPECT_FALSE(planner::offloads(plan));
  EXPECT_TRUE(planner::offloaded(plan, 0).empty() && planner::offloaded(plan, 1).empty());
}

TEST(Offload, EndsWithTheInputGradientsOfASplitBackward) {
  const Plan plan = offloading(testing::stages_of(3, {1, 1, 1}, testing::ones(6)), "zb1p");
  const std::vector<planner::Offloaded> away = planner::offloaded(plan, 0);
  ASSERT_FALSE(away.empty());
  for (const planner::Offloaded& one : away) EXPECT_EQ(plan.actions[0][as_index(one.backward)].kind, ActionKind::backward_input);
}

TEST(Offload, OfReplicasIsThatOfTheirMicrobatches) {
  const Plan plan = offloading(testing::stages_of(2, {2}, testing::ones(8)), "gpipe");
  for (int device = 0; device < 2; ++device)
    for (const planner::Offloaded& away : planner::offloaded(plan, device)) EXPECT_EQ(away.microbatch % 2, device);
}

TEST(Offload, IsInThePlanFileWhereAStageHasIt) {
  Plan plan = testing::scheduled(testing::stages_of(4, {1, 1}, testing::ones(4)), "1f1b");
  const std::string key = plan_key(plan);
  EXPECT_EQ(plan_to_json(plan, {}).find("offload"), std::string::npos);
  plan.stages[0].offload = true;
  const std::string text = plan_to_json(plan, {});
  EXPECT_NE(text.find(R"("offload":true)"), std::string::npos) << text;
  EXPECT_EQ(plan_from_json(text, "here"), plan);
  EXPECT_NE(plan_key(plan), key);
}

TEST(Offload, AndRecomputationOfAStageExcludeEachOther) {
  Plan plan = testing::scheduled(testing::stages_of(4, {1, 1}, testing::ones(4)), "1f1b");
  plan.stages[1].offload = true;
  plan.stages[0].recompute.mode = Recompute::Mode::all;
  EXPECT_NO_THROW(validate(plan, 4, "here"));
  plan.stages[1].recompute.mode = Recompute::Mode::all;
  EXPECT_THROW(validate(plan, 4, "here"), Error);
  EXPECT_THROW((void)plan_from_json(plan_to_json(plan, {}), "here"), Error);
}

TEST(Offload, IsRefusedByARuntimeWithoutIt) {
  Plan plan = testing::scheduled(testing::stages_of(4, {1, 1}, testing::ones(4)), "1f1b");
  const Capabilities without{.offload = false};
  EXPECT_TRUE(executable(plan, without));
  plan.stages[1].offload = true;
  EXPECT_TRUE(executable(plan, {}));
  EXPECT_EQ(missing_capability(plan, without), MissingCapability::offload);
}

}  // namespace
}  // namespace mptune

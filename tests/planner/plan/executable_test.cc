#include "planner/plan/executable.h"

#include <gmock/gmock.h>

#include "planner/schedule/schedule.h"
#include "tests/planner/profiles.h"
#include "tuner/runtime/graph/capabilities.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;

constexpr Capabilities kLeast{.several_stages_per_device = false,
                              .split_backward = false,
                              .replicas = false,
                              .recompute_stages = false,
                              .recompute_layers = false,
                              .idle_devices_help = false};

Plan chain() {
  return testing::scheduled(testing::stages_of(6, {1, 1, 1}, testing::ones(4)), "1f1b");
}

Plan with_split_backward() {
  Plan plan = chain();
  for (std::vector<Action>& row : plan.actions) {
    std::vector<Action> split;
    for (const Action& action : row) {
      if (action.kind == ActionKind::forward) {
        split.push_back(action);
        continue;
      }
      split.push_back({action.stage, ActionKind::backward_input, action.microbatch});
      split.push_back({action.stage, ActionKind::backward_weight, action.microbatch});
    }
    row = split;
  }
  validate_schedule(plan, "");
  return plan;
}

TEST(Executable, AChainNeedsNothing) {
  EXPECT_EQ(why_not_executable(chain(), kLeast), "");
  Plan bare = chain();
  bare.actions.clear();
  EXPECT_TRUE(executable(bare, kLeast));
}

TEST(Executable, NamesTheFirstThingMissing) {
  const auto expect = [](const Plan& plan, Capabilities enough, const char* reason) {
    EXPECT_THAT(why_not_executable(plan, kLeast), HasSubstr(reason));
    EXPECT_EQ(why_not_executable(plan, enough), "");
    EXPECT_EQ(why_not_executable(plan, {}), "");
  };
  Capabilities enough = kLeast;
  enough.split_backward = true;
  expect(with_split_backward(), enough, "split backward");
  enough = kLeast;
  enough.several_stages_per_device = true;
  expect(testing::scheduled(testing::stages_of(6, {1, 1, 1, 1}, testing::ones(4), 2), "gpipe"), enough, "several stages");
  enough = kLeast;
  enough.replicas = true;
  expect(testing::scheduled(testing::stages_of(6, {2, 1}, testing::ones(4)), "1f1b"), enough, "replicas");
  Plan recomputed = chain();
  recomputed.stages[1].recompute.mode = Recompute::Mode::all;
  enough = kLeast;
  enough.recompute_stages = true;
  expect(recomputed, enough, "recomputation");
  recomputed.stages[1].recompute = {Recompute::Mode::some, {2}, {}};
  enough = kLeast;
  enough.recompute_layers = true;
  expect(recomputed, enough, "single layers");
  Plan helped = chain();
  helped.options.idle_devices_help = true;
  enough = kLeast;
  enough.idle_devices_help = true;
  expect(helped, enough, "idle devices");
}

TEST(Executable, TheRuntimeHasReplicasAndRecomputation) {
  EXPECT_TRUE(executable(testing::scheduled(testing::stages_of(8, {1, 1, 1, 1}, testing::ones(4), 2), "gpipe"), tuner::kRuntime));
  Plan hybrid = testing::scheduled(testing::stages_of(6, {2, 1}, testing::ones(4)), "1f1b");
  hybrid.stages[0].recompute = {Recompute::Mode::some, {1}, {0}};
  EXPECT_TRUE(executable(hybrid, tuner::kRuntime));
}

}  // namespace
}  // namespace mptune::planner

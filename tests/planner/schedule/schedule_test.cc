#include "planner/schedule/schedule.h"
#include "planner/schedule/schedule_info.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "profiler/base/error.h"
#include "tests/planner/profiles.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

using ::testing::HasSubstr;
using testing::scheduled;
using testing::stages_of;

std::string rows(const Plan& plan) {
  std::string text;
  for (const auto& row : plan.actions) text += to_text(row) + "\n";
  return text;
}

std::string refusal(const Plan& plan) {
  try {
    validate_schedule(plan, "here");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.where(), HasSubstr("here"));
    return error.problem();
  }
  return "";
}

TEST(MakeSchedule, DrawsTheTableOfTheHeader) {
  EXPECT_EQ(rows(scheduled(stages_of(2, {1, 1}, {1, 1, 1}), "gpipe")), "0F0 0F1 0F2 0B0 0B1 0B2\n1F0 1F1 1F2 1B0 1B1 1B2\n");
  EXPECT_EQ(rows(scheduled(stages_of(2, {1, 1}, {1, 1, 1}), "1f1b")), "0F0 0F1 0B0 0F2 0B1 0B2\n1F0 1B0 1F1 1B1 1F2 1B2\n");
  EXPECT_EQ(rows(scheduled(stages_of(2, {1, 1}, {3}), "naive")), "0F0 0B0\n1F0 1B0\n");
}

TEST(MakeSchedule, HoldsAsManyAsStagesFollow) {
  for (int stages = 1; stages <= 6; ++stages) {
    for (int m = 1; m <= 9; ++m) {
      const std::vector<int> replicas(as_index(stages), 1);
      const std::vector<int> sizes(as_index(m), 1);
      const Plan plan = scheduled(stages_of(stages, replicas, sizes), "1f1b");
      const Plan gpipe = scheduled(stages_of(stages, replicas, sizes), "gpipe");
      for (int s = 0; s < stages; ++s) {
        EXPECT_EQ(most_in_flight(plan, s), std::min(m, stages - s));
        EXPECT_EQ(most_in_flight(gpipe, s), m);
      }
    }
  }
}

// Gradients of weights in ascending order are what keeps sums of gradients in one order.
void expect_ascending(const Plan& plan) {
  for (const auto& row : plan.actions) {
    std::map<std::pair<int, ActionKind>, int> last;
    for (const Action& action : row) {
      const bool backward = action.kind == ActionKind::backward;
      for (const ActionKind kind :
           {backward ? ActionKind::backward_input : action.kind, backward ? ActionKind::backward_weight : action.kind}) {
        const auto [found, fresh] = last.try_emplace({action.stage, kind}, action.microbatch);
        EXPECT_TRUE(fresh || found->second <= action.microbatch) << to_text(row);
        found->second = action.microbatch;
      }
    }
  }
}

// One device per stage, any replicas: all schedules but those of several stages on a device.
TEST(MakeSchedule, IsValidForAllReplicaCounts) {
  int checked = 0;
  for (int stages = 1; stages <= 4; ++stages) {
    for (int mask = 0; mask < 81; ++mask) {
      std::vector<int> replicas;
      for (int s = 0, rest = mask; s < stages; ++s, rest /= 3) replicas.push_back(1 + rest % 3);
      for (int m = 1; m <= 8; ++m) {
        for (const std::string name : {"naive", "gpipe", "1f1b", "eager-1f1b", "zb1p", "zb2p", "list"}) {
          if (name == "naive" && m != 1) continue;
          const Plan plan = scheduled(stages_of(4, replicas, std::vector<int>(as_index(m), 1)), name);
          ASSERT_NO_THROW(validate_schedule(plan, "")) << name << "\n" << rows(plan);
          expect_ascending(plan);
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 10000);
}

TEST(MakeSchedule, IsValidForAnyNumberOfDevicesStagesAndMicrobatches) {
  for (int devices = 1; devices <= 9; ++devices) {
    for (int m = 1; m <= 21; ++m) {
      for (const std::string name : {"gpipe", "interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v", "list"}) {
        for (int v = 1; v <= 3; ++v) {
          if (v != testing::stages_per_device(name, v) || (name == "list" && m > 7)) continue;
          const Plan plan = testing::mapped(name, devices, v, m);
          ASSERT_NO_THROW(validate_schedule(plan, "")) << name << "\n" << rows(plan);
          expect_ascending(plan);
        }
      }
    }
  }
}

TEST(MakeSchedule, GpipeAndNaiveRunSeveralStagesPerDevice) {
  for (int stages = 2; stages <= 6; ++stages) {
    for (int devices = 1; devices <= 3; ++devices) {
      for (int m = 1; m <= 5; ++m) {
        const std::vector<int> replicas(as_index(stages), 1);
        const Plan bare = stages_of(stages, replicas, std::vector<int>(as_index(m), 2), devices);
        EXPECT_NO_THROW(validate_schedule(scheduled(bare, "gpipe"), ""));
        if (m == 1) {
          EXPECT_NO_THROW(validate_schedule(scheduled(bare, "naive"), ""));
        }
        if (stages > devices) {
          EXPECT_THROW(scheduled(bare, "1f1b"), Error);
        }
      }
    }
  }
}

std::string make_refusal(Plan plan, const std::string& name) {
  try {
    make_schedule(plan, name);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.problem();
  }
  return "";
}

TEST(MakeSchedule, RefusesWhatItCannotMake) {
  const Plan two = stages_of(2, {1, 1}, {1, 1});
  EXPECT_THAT(make_refusal(two, "naive"), HasSubstr("one micro-batch, not 2"));
  EXPECT_THAT(make_refusal(two, "zigzag"), HasSubstr("unknown schedule 'zigzag'"));
  EXPECT_THAT(make_refusal(two, ""), HasSubstr("unknown schedule"));
  EXPECT_THAT(make_refusal(two, "zbv"), HasSubstr("stages s and 2 D - 1 - s on device s"));
  for (const char* name : {"1f1b", "eager-1f1b", "zb1p", "zb2p"})
    EXPECT_THAT(make_refusal(stages_of(4, {1, 1, 1, 1}, {1}, 2), name), HasSubstr("one stage on a device"));
  EXPECT_THAT(make_refusal(stages_of(4, {1, 1, 1, 1}, {1}, 2), "v-min"), HasSubstr("2 D - 1 - s"));
  EXPECT_THAT(make_refusal(stages_of(4, {2, 1}, {1, 1}), "interleaved"), HasSubstr("s mod D"));
  Plan plan = two;
  const ScheduleCosts too_many{std::vector<StageCosts>(3), {}};
  EXPECT_THROW(make_schedule(plan, "list", &too_many), Error);
  const ScheduleCosts one_limit{std::vector<StageCosts>(2), {1}};
  EXPECT_THROW(make_schedule(plan, "gpipe", &one_limit), Error);
}

TEST(StageDevices, AreInTurnOrInAV) {
  using ::testing::ElementsAre;
  EXPECT_THAT(stage_devices("1f1b", 3, 1), ElementsAre(0, 1, 2));
  EXPECT_THAT(stage_devices("interleaved", 2, 3), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_THAT(stage_devices("list", 3, 2), ElementsAre(0, 1, 2, 0, 1, 2));
  for (const char* name : {"zbv", "v-half", "v-min", "dualpipe-v"}) {
    EXPECT_THAT(stage_devices(name, 3, 2), ElementsAre(0, 1, 2, 2, 1, 0));
    EXPECT_THROW((void)stage_devices(name, 3, 1), Error);
  }
  EXPECT_THROW((void)stage_devices("zb1p", 3, 2), Error);
  EXPECT_THROW((void)stage_devices("gpipe", 0, 1), Error);
  EXPECT_THROW((void)stage_devices("zigzag", 1, 1), Error);
}

TEST(ValidateSchedule, NamesTheFirstWrongAction) {
  const Plan good = scheduled(stages_of(2, {1, 1}, {1, 1, 1}), "1f1b");
  EXPECT_EQ(refusal(good), "");
  Plan plan = good;
  plan.actions[0].pop_back();
  EXPECT_THAT(refusal(plan), HasSubstr("too few"));
  plan = good;
  plan.actions[1].back() = {1, ActionKind::forward, 1};
  EXPECT_THAT(refusal(plan), HasSubstr("1F1"));
  plan = good;
  std::swap(plan.actions[0][0], plan.actions[0][2]);
  EXPECT_THAT(refusal(plan), HasSubstr("0B0 stands before its forward"));
  plan = good;
  plan.actions[0][0].stage = 7;
  EXPECT_THAT(refusal(plan), HasSubstr("7F0 names a stage"));
  plan = good;
  plan.actions[0][0].microbatch = 3;
  EXPECT_THAT(refusal(plan), HasSubstr("0F3 names a micro-batch"));
  plan = good;
  plan.actions[0][0].stage = 1;
  EXPECT_THAT(refusal(plan), HasSubstr("belongs to sleep:1"));
  plan = good;
  plan.actions.pop_back();
  EXPECT_THAT(refusal(plan), HasSubstr("1 rows for 2 devices"));
  plan = good;
  plan.actions[0].push_back({0, ActionKind::forward, 1});
  EXPECT_THAT(refusal(plan), HasSubstr("0F1 repeats"));
}

TEST(ValidateSchedule, TellsWhereDevicesBlockEachOther) {
  Plan plan = scheduled(stages_of(2, {1, 1}, {1, 1}), "1f1b");
  plan.actions[0] = actions_from_text("0F0 0B0 0F1 0B1", "");
  plan.actions[1] = actions_from_text("1F0 1F1 1B0 1B1", "");
  EXPECT_EQ(refusal(plan), "the schedule blocks itself: sleep:0 waits at 0B0, sleep:1 waits at 1F1");
}

// Device 0 sends the output of stage 0 that device 1 reads last before the one it reads first.
TEST(ValidateSchedule, FindsActionsThatWaitForCommunicationBuffers) {
  Plan plan = scheduled(stages_of(2, {1, 1}, {1, 1}), "gpipe");
  plan.actions[1] = actions_from_text("1F1 1F0 1B0 1B1", "");
  const auto refusal_with = [&](int buffers) -> std::string {
    try {
      validate_schedule(plan, "here", {buffers, nullptr});
    } catch (const Error& error) {
      return error.problem();
    }
    return "";
  };
  EXPECT_EQ(refusal_with(0), "");
  EXPECT_EQ(refusal_with(2), "");
  EXPECT_EQ(refusal_with(1),
            "the schedule blocks itself with 1 communication buffers per link: sleep:0 waits at 0B0, sleep:1 waits at 1F1");
}

// Copies come in the order in which they are read where a device has one stage, so one slot is enough.
TEST(ValidateSchedule, OneReceiveSlotIsEnoughForOneStagePerDevice) {
  for (const std::string name : {"gpipe", "1f1b", "eager-1f1b", "zb1p", "zb2p", "list"}) {
    for (int devices = 1; devices <= 6; ++devices)
      for (int m = 1; m <= 13; ++m) EXPECT_NO_THROW(validate_schedule(testing::mapped(name, devices, 1, m), "", {1, nullptr})) << name;
  }
}

TEST(ValidateSchedule, NamesTheActionThatHasNoRoom) {
  const Plan plan = scheduled(stages_of(2, {1, 1}, {1, 1, 1}), "gpipe");
  ScheduleCosts costs{std::vector<StageCosts>(2), {2, 3}};
  try {
    validate_schedule(plan, "here", {0, &costs});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.problem(), "action 0F2 leaves 3 bytes of activations saved, 2 are free");
    EXPECT_EQ(error.where(), "here, row of sleep:0");
    EXPECT_EQ(error.code(), ExitCode::infeasible);
  }
  costs.free_bytes[0] = 3;
  EXPECT_NO_THROW(validate_schedule(plan, "here", {0, &costs}));
}

TEST(ValidateSchedule, AcceptsSplitBackwardsInOrderOnly) {
  Plan plan = scheduled(stages_of(2, {1, 1}, {1}), "1f1b");
  plan.actions[1] = actions_from_text("1F0 1I0 1W0", "");
  EXPECT_EQ(refusal(plan), "");
  plan.actions[1] = actions_from_text("1F0 1W0 1I0", "");
  EXPECT_THAT(refusal(plan), HasSubstr("1W0 stands before its input gradient"));
  plan.actions[1] = actions_from_text("1F0 1B0 1W0", "");
  EXPECT_THAT(refusal(plan), HasSubstr("1W0 repeats"));
  plan.actions[1] = actions_from_text("1F0 1I0", "");
  plan.actions[0].push_back({0, ActionKind::forward, 0});
  EXPECT_NE(refusal(plan), "");
}

TEST(ValidateSchedule, AcceptsFusedWeightGradientsOfOneReplicaOnly) {
  Plan plan = stages_of(2, {1}, {1, 1, 1});
  const auto refused = [&](const char* row) {
    plan.actions = {actions_from_text(row, "")};
    return refusal(plan);
  };
  EXPECT_EQ(refused("0F0 0F1 0F2 0I0 0I1 0W0-1 0I2 0W2"), "");
  EXPECT_EQ(refused("0F0 0F1 0F2 0I2 0I1 0I0 0W0-2"), "");
  EXPECT_EQ(most_in_flight(plan, 0), 3);
  EXPECT_THAT(refused("0F0 0F1 0F2 0I0 0W0-1 0I1 0I2 0W2"), HasSubstr("0W0-1 stands before its input gradient"));
  EXPECT_THAT(refused("0F0 0F1 0F2 0I0 0I1 0I2 0W0-1 0W1-2"), HasSubstr("0W1-2 repeats"));
  EXPECT_THAT(refused("0F0 0F1 0F2 0I0 0I1 0B2 0W0-2"), HasSubstr("0W0-2 repeats"));
  EXPECT_THAT(refused("0F0 0F1 0F2 0I0 0I1 0I2 0W0-3"), HasSubstr("0W0-3 names a micro-batch that does not exist"));
  EXPECT_THAT(refused("0F0 0F1 0F2 0I0 0I1 0I2 0W1-2"), HasSubstr("backward of micro-batch 0 of stage 0 is missing"));
  plan.actions[0][3].further = 1;
  EXPECT_THAT(refusal(plan), HasSubstr("0I0-1 fuses other work"));
  Plan replicas = stages_of(2, {2}, {1, 1, 1, 1});
  replicas.actions = {actions_from_text("0F0 0F2 0I0 0I2 0W0-2", ""), actions_from_text("0F1 0F3 0B1 0B3", "")};
  EXPECT_THAT(refusal(replicas), HasSubstr("action 0W0-2 fuses neighbouring micro-batches, but these are on different replicas: "
                                           "micro-batch i is on replica i mod 2"));
}

// Slow truth: the rows run with random speeds; a valid schedule always ends, in any interleaving.
bool ends(const Plan& plan, std::mt19937& random) {
  std::vector<std::size_t> next(plan.devices.size());
  std::map<std::pair<int, int>, int> done;
  std::size_t left = 0;
  for (const auto& row : plan.actions) left += row.size();
  for (std::size_t idle = 0; left > 0 && idle < 2000; ++idle) {
    const std::size_t d = std::uniform_int_distribution<std::size_t>(0, next.size() - 1)(random);
    if (next[d] == plan.actions[d].size()) continue;
    const Action action = plan.actions[d][next[d]];
    const std::pair at(action.stage, action.microbatch);
    const bool forward = action.kind == ActionKind::forward;
    const bool ready = forward
                           ? action.stage == 0 || done[{action.stage - 1, action.microbatch}] >= 1
                           : done[at] == 1 && (action.stage + 1 == plan.num_stages() || done[{action.stage + 1, action.microbatch}] == 2);
    if (!ready) continue;
    done[at] = forward ? 1 : 2;
    ++next[d];
    --left;
    idle = 0;
  }
  return left == 0;
}

TEST(ValidateSchedule, AgreesWithRandomExecutionOfShuffledRows) {
  std::mt19937 random(7);
  int valid = 0;
  int invalid = 0;
  for (int round = 0; round < 400; ++round) {
    Plan plan = scheduled(stages_of(3, {1, 1, 1}, {1, 1, 1}), round % 2 == 0 ? "1f1b" : "gpipe");
    const auto swaps = std::uniform_int_distribution<int>(0, 3)(random);
    for (int i = 0; i < swaps; ++i) {
      auto& row = plan.actions[std::uniform_int_distribution<std::size_t>(0, 2)(random)];
      const auto k = std::uniform_int_distribution<std::size_t>(0, row.size() - 2)(random);
      std::swap(row[k], row[k + 1]);
    }
    const bool accepted = refusal(plan).empty();
    EXPECT_EQ(accepted, ends(plan, random)) << rows(plan);
    ++(accepted ? valid : invalid);
  }
  EXPECT_GT(valid, 50);
  EXPECT_GT(invalid, 50);
}

// Forwards and input gradients, whole backwards as such.
std::vector<Action> order_of(const std::vector<Action>& row) {
  std::vector<Action> order;
  for (Action action : row) {
    if (action.kind == ActionKind::backward_weight) continue;
    if (action.kind == ActionKind::backward) action.kind = ActionKind::backward_input;
    order.push_back(action);
  }
  return order;
}

bool is_weight(const Action& action) {
  return action.kind == ActionKind::backward_weight;
}

TEST(LateSchedules, KeepTheOrderAndPutWeightGradientsLast) {
  for (const ScheduleInfo& late : late_schedules()) {
    const std::string name = late.name;
    const std::string whole = name.substr(0, name.find("-late"));
    const ScheduleInfo& other = schedule_info(whole);
    EXPECT_EQ(late.map, other.map);
    EXPECT_EQ(late.one_microbatch, other.one_microbatch);
    EXPECT_EQ(late.least_virtual_stages, other.least_virtual_stages);
    for (int devices = 1; devices <= 4; ++devices) {
      for (int m = 1; m <= (late.one_microbatch ? 1 : 7); ++m) {
        const int stages = devices * late.least_virtual_stages;
        Plan plan = stages_of(stages, std::vector<int>(as_index(stages), 1), testing::ones(m), devices);
        const Plan made = scheduled(plan, whole);
        make_schedule(plan, name);
        ASSERT_NO_THROW(validate_schedule(plan, name));
        for (std::size_t d = 0; d < plan.actions.size(); ++d) {
          EXPECT_EQ(order_of(plan.actions[d]), order_of(made.actions[d])) << name;
          EXPECT_TRUE(std::ranges::is_partitioned(plan.actions[d], [](const Action& action) { return !is_weight(action); }));
        }
      }
    }
  }
}

TEST(LateSchedules, KeepToTheFreeMemory) {
  std::mt19937 random(9);
  int early = 0;
  for (int round = 0; round < 200; ++round) {
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    Plan plan = stages_of(3, {1, 1, 1}, testing::ones(draw(1, 8)));
    ScheduleCosts costs{std::vector<StageCosts>(3), {}};
    for (StageCosts& stage : costs.stages) {
      stage.saved_activation_bytes = draw(1, 5);
      stage.held_bytes = draw(1, 7);
    }
    make_schedule(plan, "1f1b", &costs);
    for (std::size_t s = 0; s < 3; ++s) {
      // Enough if every weight gradient runs at once: with the input gradients' bytes once.
      const StageCosts& stage = costs.stages[s];
      costs.free_bytes.push_back(most_in_flight(plan, static_cast<int>(s)) * stage.saved_activation_bytes +
                                 std::max<std::int64_t>(0, stage.held_bytes - stage.saved_activation_bytes) + draw(0, 10));
    }
    make_schedule(plan, "1f1b-late", &costs);
    ASSERT_NO_THROW(validate_schedule(plan, "late"));
    const std::vector<std::int64_t> saved = most_saved_bytes(plan, costs);
    for (std::size_t d = 0; d < 3; ++d) {
      EXPECT_LE(saved[d], costs.free_bytes[d]) << round;
      early += std::ranges::is_partitioned(plan.actions[d], [](const Action& action) { return !is_weight(action); }) ? 0 : 1;
    }
  }
  EXPECT_GT(early, 50) << "memory never matters";
}

}  // namespace
}  // namespace mptune::planner

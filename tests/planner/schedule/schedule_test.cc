#include "mptune/planner/schedule/schedule.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>

#include "mptune/profiler/trace/error.h"
#include "mptune/tests/planner/profiles.h"

namespace mptune {
namespace {

using test::scheduled;
using test::stages_of;
using ::testing::HasSubstr;

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
    return error.what();
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
      const std::vector<int> replicas(static_cast<std::size_t>(stages), 1);
      const std::vector<int> sizes(static_cast<std::size_t>(m), 1);
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
          const Plan plan = scheduled(stages_of(4, replicas, std::vector<int>(static_cast<std::size_t>(m), 1)), name);
          ASSERT_NO_THROW(validate_schedule(plan, "")) << name << "\n" << rows(plan);
          expect_ascending(plan);
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 10000);
}

Plan mapped(const std::string& name, int devices, int virtual_stages, int m) {
  Plan plan;
  plan.microbatch_sizes = test::ones(m);
  for (int d = 0; d < devices; ++d) plan.devices.push_back("sleep:" + std::to_string(d));
  const std::vector<int> of = stage_devices(name, devices, virtual_stages);
  for (int s = 0; s < static_cast<int>(of.size()); ++s) plan.stages.push_back({s, s + 1, {of[static_cast<std::size_t>(s)]}, {}});
  make_schedule(plan, name);
  return plan;
}

TEST(MakeSchedule, IsValidForAnyNumberOfDevicesStagesAndMicrobatches) {
  for (int devices = 1; devices <= 9; ++devices) {
    for (int m = 1; m <= 21; ++m) {
      for (const std::string name : {"gpipe", "interleaved", "looped-bfs", "zbv", "v-half", "v-min", "dualpipe-v", "list"}) {
        for (int v = 1; v <= 3; ++v) {
          const bool in_a_v = name == "zbv" || name == "v-half" || name == "v-min" || name == "dualpipe-v";
          if ((in_a_v && v != 2) || (name == "list" && m > 7)) continue;
          const Plan plan = mapped(name, devices, v, m);
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
        const std::vector<int> replicas(static_cast<std::size_t>(stages), 1);
        const Plan bare = stages_of(stages, replicas, std::vector<int>(static_cast<std::size_t>(m), 2), devices);
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

TEST(MakeSchedule, RefusesWhatItCannotMake) {
  EXPECT_THROW(scheduled(stages_of(2, {1, 1}, {1, 1}), "naive"), Error);
  EXPECT_THROW(scheduled(stages_of(2, {1, 1}, {1, 1}), "zigzag"), Error);
  EXPECT_THROW(scheduled(stages_of(2, {1, 1}, {1, 1}), ""), Error);
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

TEST(ScheduleText, RoundTrips) {
  const Plan plan = scheduled(stages_of(3, {1, 2, 1}, {2, 2, 2, 1}), "1f1b");
  for (const auto& row : plan.actions) EXPECT_EQ(actions_from_text(to_text(row), ""), row);
  EXPECT_EQ(schedule_from_csv(schedule_to_csv(plan.actions), ""), plan.actions);
  EXPECT_EQ(to_text(Action{12, ActionKind::backward_weight, 345}), "12W345");
}

TEST(ScheduleText, ReadsCsvWithEmptyCells) {
  const auto read = schedule_from_csv("0F0,0F1,,,0B0,0B1\r\n,1F0,1F1,1B0,1B1,\n\n", "file");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(to_text(read[0]), "0F0 0F1 0B0 0B1");
  EXPECT_EQ(to_text(read[1]), "1F0 1F1 1B0 1B1");
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
}  // namespace mptune

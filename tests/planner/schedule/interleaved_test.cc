// Interleaved 1F1B against the orders of Megatron-LM and torch.distributed.pipelining.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/schedule/timing.h"
#include "profiler/base/index.h"
#include "tests/planner/schedule/mapped.h"

namespace mptune::planner {
namespace {

// Megatron-LM's interleaved schedule, from its own description (arXiv 2104.04473 and its schedules.py): a table of (micro-batch, chunk) in
// groups of D micro-batches, the same for forwards and, chunks reversed, for backwards; (D - 1 - d) 2 + (V - 1) D forwards to warm up, at
// most all; then a forward and a backward in turn; then the backwards left. It asks for a multiple of D micro-batches. torch's
// ScheduleInterleaved1F1B has groups of m / max(1, m / D), both rounded down, and asks that they divide m.
std::vector<Action> interleaved_row(int d, int devices, int chunks, int m, int group) {
  std::vector<std::pair<int, int>> table;
  for (int first = 0; first < m; first += group) {
    for (int chunk = 0; chunk < chunks; ++chunk)
      for (int i = first; i < first + group; ++i) table.emplace_back(i, chunk);
  }
  std::size_t forwards = 0, backwards = 0;
  std::vector<Action> row;
  const auto forward = [&] {
    const auto [i, chunk] = table[forwards++];
    row.push_back({chunk * devices + d, ActionKind::forward, i});
  };
  const auto backward = [&] {
    const auto [i, chunk] = table[backwards++];
    row.push_back({(chunks - 1 - chunk) * devices + d, ActionKind::backward, i});
  };
  const int warm_up = std::min((devices - d - 1) * 2 + (chunks - 1) * group, m * chunks);
  for (int k = 0; k < warm_up; ++k) forward();
  while (forwards < table.size()) {
    forward();
    backward();
  }
  while (backwards < table.size()) backward();
  return row;
}

TEST(MakeSchedule, InterleavedIsMegatrons) {
  for (int devices = 1; devices <= 8; ++devices) {
    for (int chunks = 1; chunks <= 4; ++chunks) {
      for (int m = devices; m <= 4 * devices; m += devices) {
        const Plan plan = testing::mapped("interleaved", devices, chunks, m);
        for (int d = 0; d < devices; ++d)
          ASSERT_EQ(to_text(plan.actions[as_index(d)]), to_text(interleaved_row(d, devices, chunks, m, devices)))
              << devices << " " << chunks << " " << m;
      }
    }
  }
}

TEST(MakeSchedule, InterleavedIsNeverSlowerThanTorchs) {
  for (int devices = 2; devices <= 5; ++devices)
    for (int chunks = 2; chunks <= 4; ++chunks)
      for (int m = 1; m <= 4 * devices; ++m) {
        const int rounds = std::max(1, m / devices);
        if (m % rounds != 0) continue;
        Plan plan = testing::mapped("interleaved", devices, chunks, m);
        const ScheduleCosts textbook{std::vector<StageCosts>(plan.stages.size()), {}};
        const std::int64_t ours = time_schedule(plan, textbook).end_ns;
        for (int d = 0; d < devices; ++d) plan.actions[as_index(d)] = interleaved_row(d, devices, chunks, m, m / rounds);
        const std::int64_t torchs = time_schedule(plan, textbook).end_ns;
        EXPECT_LE(ours, torchs) << devices << " " << chunks << " " << m;
        if (devices == 3 && chunks == 3 && m == 4) {
          EXPECT_EQ(torchs, 42);
        }
      }
}

// Other numbers of micro-batches run the schedule of the next multiple without the micro-batches that do not exist: in the same order.
TEST(MakeSchedule, InterleavedTakesAnyNumberOfMicrobatches) {
  for (int devices = 2; devices <= 5; ++devices)
    for (int chunks = 2; chunks <= 3; ++chunks)
      for (int m = 1; m <= 3 * devices; ++m) {
        const int groups = std::max(1, m / devices);
        std::vector<std::vector<std::vector<Action>>> allowed;
        for (const int group : {devices, std::max(devices, (m + groups - 1) / groups)}) {
          std::vector<std::vector<Action>>& rows = allowed.emplace_back();
          for (int d = 0; d < devices; ++d) {
            rows.push_back(interleaved_row(d, devices, chunks, (m + group - 1) / group * group, group));
            std::erase_if(rows.back(), [&](const Action& action) { return action.microbatch >= m; });
          }
        }
        const Plan plan = testing::mapped("interleaved", devices, chunks, m);
        EXPECT_TRUE(plan.actions == allowed[0] || plan.actions == allowed[1]) << devices << " " << chunks << " " << m;
      }
}

}  // namespace
}  // namespace mptune::planner

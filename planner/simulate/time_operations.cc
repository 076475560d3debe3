#include <algorithm>
#include <cmath>

#include "planner/simulate/operations.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr int kReplays = 3;

void replay_once(const Operations& operations, Timing& timing) {
  std::vector<std::int64_t> free(as_index(operations.lanes), 0);
  std::vector<std::int64_t> reduced;
  std::int64_t actions_end = 0;
  timing.end_ns = 0;
  auto wait = operations.waits.begin();
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const Operation& operation = operations.list[i];
    std::int64_t& lane = free[as_index(operation.lane)];
    std::int64_t start = lane;
    if (operation.phase == Phase::actions) {
      if (operation.input >= 0) {
        const auto input = as_index(operation.input);
        start = std::max(start, timing.start_ns[input] + timing.duration_ns[input]);
      }
      for (; wait != operations.waits.end() && as_index(wait->operation) == i; ++wait)
        start = std::max(start, timing.start_ns[as_index(wait->until)] + timing.duration_ns[as_index(wait->until)]);
      actions_end = std::max(actions_end, start + timing.duration_ns[i]);
    } else {
      start = std::max(start, actions_end);
    }
    if (operation.phase == Phase::optimizer && as_index(operation.stage) < reduced.size())
      start = std::max(start, reduced[as_index(operation.stage)]);
    timing.start_ns[i] = start;
    lane = start + timing.duration_ns[i];
    if (operation.phase == Phase::reduce) {
      if (reduced.size() <= as_index(operation.stage)) reduced.resize(as_index(operation.stage) + 1, 0);
      std::int64_t& end = reduced[as_index(operation.stage)];
      end = std::max(end, lane);
    }
    timing.end_ns = std::max(timing.end_ns, lane);
  }
}

bool slows_others(const Operation& operation) {
  return operation.phase == Phase::actions && operation.kind != EventKind::copy;
}

// Returns the nanoseconds of other devices' compute during each operation, summed over the devices by their weights. Both lists of a pair
// are disjoint and ascending, so one pass over each pair is enough.
std::vector<std::int64_t> overlap_with_others(const Operations& operations, const std::vector<std::vector<int>>& rows,
                                              const Timing& timing) {
  std::vector<std::int64_t> overlap(operations.list.size(), 0);
  const auto start = [&](int i) { return timing.start_ns[as_index(i)]; };
  const auto end = [&](int i) { return timing.start_ns[as_index(i)] + timing.duration_ns[as_index(i)]; };
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = a + 1; b < rows.size(); ++b) {
      for (std::size_t i = 0, j = 0; i < rows[a].size() && j < rows[b].size();) {
        const int x = rows[a][i];
        const int y = rows[b][j];
        const std::int64_t common = std::min(end(x), end(y)) - std::max(start(x), start(y));
        if (common > 0) {
          overlap[as_index(x)] += common * operations.weights[b];
          overlap[as_index(y)] += common * operations.weights[a];
        }
        end(x) < end(y) ? ++i : ++j;
      }
    }
  }
  return overlap;
}

void slow_down(const Operations& operations, const std::vector<std::vector<int>>& rows, Timing& timing) {
  const std::vector<std::int64_t> overlap = overlap_with_others(operations, rows, timing);
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const Operation& operation = operations.list[i];
    if (operation.extra_ns == 0 || timing.duration_ns[i] == 0) continue;
    const auto possible =
        static_cast<double>(timing.duration_ns[i]) * static_cast<double>(std::max(1, operations.neighbours[as_index(operation.device)]));
    const double share = std::min(1.0, static_cast<double>(overlap[i]) / possible);
    timing.duration_ns[i] = operation.alone_ns + std::llround(static_cast<double>(operation.extra_ns) * share);
  }
}

}  // namespace

Timing time_operations(const Operations& operations) {
  Timing timing;
  timing.start_ns.resize(operations.list.size());
  timing.duration_ns.resize(operations.list.size());
  std::vector<std::vector<int>> rows(as_index(operations.devices));
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    timing.duration_ns[i] = operations.list[i].alone_ns;
    if (slows_others(operations.list[i])) rows[as_index(operations.list[i].device)].push_back(static_cast<int>(i));
  }
  replay_once(operations, timing);
  for (int replay = 0; operations.interferes && replay < kReplays; ++replay) {
    slow_down(operations, rows, timing);
    replay_once(operations, timing);
  }
  return timing;
}

}  // namespace mptune::planner

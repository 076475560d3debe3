#include "planner/schedule/timing.h"

#include <algorithm>
#include <numeric>

#include "profiler/base/index.h"

namespace mptune::planner {

ScheduleReplay::ScheduleReplay(const Layout& layout, const ScheduleCosts& costs)
    : layout_(layout), costs_(costs), arrivals_(layout, costs) {}

std::int64_t ScheduleReplay::run(const Rows& rows) {
  const auto devices = as_index(layout_.devices());
  timing_.start_ns.resize(devices);
  next_.assign(devices, 0);
  free_.assign(devices, 0);
  arrivals_.clear();
  for (std::size_t d = 0; d < devices; ++d) timing_.start_ns[d].resize(rows[d].size());
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t d = 0; d < devices; ++d) progress |= advance(rows[d], d);
  }
  for (std::size_t d = 0; d < devices; ++d)
    if (next_[d] < rows[d].size()) return -1;
  timing_.end_ns = *std::max_element(free_.begin(), free_.end());
  timing_.span_ns = 0;
  for (std::size_t d = 0; d < devices; ++d)
    if (!rows[d].empty()) timing_.span_ns = std::max(timing_.span_ns, free_[d] - timing_.start_ns[d].front());
  return timing_.end_ns;
}

std::int64_t ScheduleReplay::ends_ns() const {
  return std::accumulate(free_.begin(), free_.end(), std::int64_t{0});
}

bool ScheduleReplay::advance(const std::vector<Action>& row, std::size_t device) {
  const std::size_t before = next_[device];
  for (; next_[device] < row.size(); ++next_[device]) {
    const Action& action = row[next_[device]];
    const std::int64_t arrival = arrivals_.at(action);
    if (arrival == Arrivals::kNever) break;
    const std::int64_t start = std::max(arrival, free_[device]);
    timing_.start_ns[device][next_[device]] = start;
    free_[device] = start + duration_ns(costs_.stages[as_index(action.stage)], action);
    arrivals_.send(action, free_[device]);
  }
  return next_[device] != before;
}

ScheduleTiming time_schedule(const Plan& plan, const ScheduleCosts& costs) {
  const Layout layout(plan);
  ScheduleReplay replay(layout, costs);
  replay.run(plan.actions);
  return replay.timing();
}

std::vector<std::int64_t> most_saved_bytes(const Plan& plan, const ScheduleCosts& costs) {
  return most_saved_bytes(plan.actions, costs);
}

std::vector<std::int64_t> most_saved_bytes(const Rows& rows, const ScheduleCosts& costs) {
  std::vector<std::int64_t> most;
  for (const std::vector<Action>& row : rows) {
    std::int64_t now = 0;
    most.push_back(0);
    for (const Action& action : row) most.back() = std::max(most.back(), now += bytes_left(costs.stages[as_index(action.stage)], action));
  }
  return most;
}

}  // namespace mptune::planner

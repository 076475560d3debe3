#include "mptune/planner/schedule/timing.h"

#include <algorithm>
#include <numeric>

namespace mptune {

ScheduleReplay::ScheduleReplay(const Layout& layout, const ScheduleCosts& costs) : layout_(layout), costs_(costs) {}

std::int64_t ScheduleReplay::run(const Rows& rows) {
  const auto devices = static_cast<std::size_t>(layout_.devices());
  const std::size_t slots = layout_.slot(layout_.stages(), 0);
  timing_.start_ns.resize(devices);
  next_.assign(devices, 0);
  free_.assign(devices, 0);
  link_free_.assign(devices * devices, 0);
  output_at_.assign(slots, -1);
  gradient_at_.assign(slots, -1);
  for (std::size_t d = 0; d < devices; ++d) timing_.start_ns[d].resize(rows[d].size());
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t d = 0; d < devices; ++d) progress |= advance(rows[d], d);
  }
  for (std::size_t d = 0; d < devices; ++d) {
    if (next_[d] < rows[d].size()) return -1;
  }
  timing_.end_ns = *std::max_element(free_.begin(), free_.end());
  timing_.span_ns = 0;
  for (std::size_t d = 0; d < devices; ++d) {
    if (!rows[d].empty()) timing_.span_ns = std::max(timing_.span_ns, free_[d] - timing_.start_ns[d].front());
  }
  return timing_.end_ns;
}

std::int64_t ScheduleReplay::ends_ns() const {
  return std::accumulate(free_.begin(), free_.end(), std::int64_t{0});
}

std::int64_t ScheduleReplay::arrival_ns(const Action& action) const {
  const std::size_t at = layout_.slot(action.stage, action.microbatch);
  if (action.kind == ActionKind::forward) return action.stage == 0 ? 0 : output_at_[at];
  if (action.kind == ActionKind::backward_weight || action.stage + 1 == layout_.stages()) return 0;
  return gradient_at_[at];
}

bool ScheduleReplay::advance(const std::vector<Action>& row, std::size_t device) {
  const std::size_t before = next_[device];
  for (; next_[device] < row.size(); ++next_[device]) {
    const Action& action = row[next_[device]];
    const std::int64_t arrival = arrival_ns(action);
    if (arrival < 0) break;
    const std::int64_t start = std::max(arrival, free_[device]);
    timing_.start_ns[device][next_[device]] = start;
    free_[device] = start + duration_ns(costs_.stages[static_cast<std::size_t>(action.stage)], action.kind);
    send(action, free_[device]);
  }
  return next_[device] != before;
}

void ScheduleReplay::send(const Action& action, std::int64_t end_ns) {
  if (action.kind == ActionKind::backward_weight) return;
  const bool forward = action.kind == ActionKind::forward;
  const int to = forward ? action.stage + 1 : action.stage - 1;
  if (to < 0 || to >= layout_.stages()) return;
  std::int64_t& arrival = (forward ? output_at_ : gradient_at_)[layout_.slot(to, action.microbatch)];
  const int source = layout_.device_of(action.stage, action.microbatch);
  const int destination = layout_.device_of(to, action.microbatch);
  const std::int64_t early = forward ? 0 : costs_.stages[static_cast<std::size_t>(to)].recompute_ns;
  arrival = std::max<std::int64_t>(0, end_ns - early);
  if (source == destination) return;
  const StageCosts& costs = costs_.stages[static_cast<std::size_t>(action.stage)];
  std::int64_t& link =
      link_free_[static_cast<std::size_t>(source) * static_cast<std::size_t>(layout_.devices()) + static_cast<std::size_t>(destination)];
  link = std::max(link, end_ns) + (forward ? costs.send_output_ns : costs.send_gradient_ns);
  arrival = std::max<std::int64_t>(0, link - early);
}

ScheduleTiming time_schedule(const Plan& plan, const ScheduleCosts& costs) {
  const Layout layout(plan);
  ScheduleReplay replay(layout, costs);
  replay.run(plan.actions);
  return replay.timing();
}

std::vector<std::int64_t> kept_bytes(const Plan& plan, const ScheduleCosts& costs) {
  return kept_bytes(plan.actions, costs);
}

std::vector<std::int64_t> kept_bytes(const Rows& rows, const ScheduleCosts& costs) {
  std::vector<std::int64_t> most;
  for (const std::vector<Action>& row : rows) {
    std::int64_t now = 0;
    most.push_back(0);
    for (const Action& action : row)
      most.back() = std::max(most.back(), now += bytes_left(costs.stages[static_cast<std::size_t>(action.stage)], action.kind));
  }
  return most;
}

}  // namespace mptune

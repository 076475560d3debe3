#include "planner/schedule/hold_back.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "planner/schedule/timing.h"
#include "profiler/base/index.h"

namespace mptune::planner {
namespace {

constexpr std::int64_t kMostTimedActions = 250'000;  // limit of actions that are timed; what has been found by then stays

std::int64_t left_by(const ScheduleCosts& costs, const Action& action) {
  return bytes_left(costs.stages[as_index(action.stage)], action);
}

// Keeps one row within a number of bytes. A forward that would exceed it waits until memory is free. Weight gradients that can run run
// before it; otherwise it waits for whatever else frees memory.
class RowWithin {
 public:
  RowWithin(const std::vector<Action>& row, const ScheduleCosts& costs, std::int64_t most_bytes)
      : row_(row), costs_(costs), most_bytes_(most_bytes) {
    for (const Action& action : row)
      if (action.kind == ActionKind::backward_weight) weights_.push_back(action);
  }

  // Returns an empty row if an action would then come before its forward.
  std::vector<Action> changed() {
    for (const Action& action : row_) {
      if (action.kind == ActionKind::forward)
        forwards_.push_back(action);
      else if (std::ranges::any_of(forwards_, [&](const Action& forward) { return same_microbatch(action, forward); }))
        return {};
      else if (action.kind != ActionKind::backward_weight || std::erase(weights_, action) > 0)
        run(action);
      run_forwards();
    }
    return std::move(changed_);
  }

 private:
  static bool same_microbatch(const Action& action, const Action& single) {
    return single.stage == action.stage && single.microbatch >= action.microbatch && single.microbatch <= action.last_microbatch();
  }

  void run(const Action& action) {
    now_bytes_ += left_by(costs_, action);
    changed_.push_back(action);
    if (action.kind == ActionKind::backward_input) inputs_.push_back(action);
  }

  void run_forwards() {
    while (!forwards_.empty()) {
      if (now_bytes_ + left_by(costs_, forwards_.front()) <= most_bytes_) {
        run(forwards_.front());
        forwards_.pop_front();
      } else if (!run_weights()) {
        return;
      }
    }
  }

  // Runs the first weight gradients whose input gradients have run.
  bool run_weights() {
    const auto ready = std::ranges::find_if(weights_, [&](const Action& weights) {
      return std::ranges::count_if(inputs_, [&](const Action& input) { return same_microbatch(weights, input); }) == 1 + weights.further;
    });
    if (ready == weights_.end()) return false;
    const Action weights = *ready;
    weights_.erase(ready);
    std::erase_if(inputs_, [&](const Action& input) { return same_microbatch(weights, input); });
    run(weights);
    return true;
  }

  const std::vector<Action>& row_;
  const ScheduleCosts& costs_;
  std::int64_t most_bytes_;
  std::int64_t now_bytes_ = 0;
  std::vector<Action> changed_;
  std::deque<Action> forwards_;  // forwards that wait
  std::vector<Action> inputs_;   // input gradients that have run, where the weight gradients have not
  std::deque<Action> weights_;   // weight gradients that have not run
};

// Returns the bytes that are saved after each action of these rows, each number once, ascending.
std::vector<std::int64_t> levels(const Rows& rows, const ScheduleCosts& costs) {
  std::set<std::int64_t> all;
  for (const std::vector<Action>& row : rows) {
    std::int64_t now = 0;
    for (const Action& action : row) all.insert(now += left_by(costs, action));
  }
  return {all.begin(), all.end()};
}

class HoldingBack {
 public:
  HoldingBack(const Layout& layout, const ScheduleCosts& costs, Rows rows)
      : costs_(costs), replay_(layout, costs), rows_(std::move(rows)), end_ns_(replay_.run(rows_)) {}

  // Finds the least bytes that are enough for all of these devices by bisection.
  void hold_back(const std::vector<std::size_t>& devices) {
    Rows before;
    for (const std::size_t d : devices) before.push_back(rows_[d]);
    const std::vector<std::int64_t> limits = levels(before, costs_);
    for (std::size_t low = 0, high = limits.empty() ? 0 : limits.size() - 1; low < high && timed_actions_ < kMostTimedActions;) {
      const std::size_t middle = (low + high) / 2;
      if (within(devices, before, limits[middle]))
        high = middle;
      else
        low = middle + 1;
    }
  }

  Rows take() { return std::move(rows_); }

 private:
  bool within(const std::vector<std::size_t>& devices, const Rows& before, std::int64_t most_bytes) {
    Rows changed = rows_;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      changed[devices[i]] = RowWithin(before[i], costs_, most_bytes).changed();
      if (changed[devices[i]].size() != before[i].size()) return false;
    }
    for (const std::vector<Action>& row : changed) timed_actions_ += static_cast<std::int64_t>(row.size());
    const std::int64_t ns = replay_.run(changed);
    if (ns < 0 || ns > end_ns_) return false;
    rows_ = std::move(changed);
    return true;
  }

  const ScheduleCosts& costs_;
  ScheduleReplay replay_;
  Rows rows_;
  std::int64_t end_ns_;
  std::int64_t timed_actions_ = 0;
};

}  // namespace

Rows held_back(const Layout& layout, const ScheduleCosts& costs, Rows rows) {
  std::vector<std::size_t> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  HoldingBack holding(layout, costs, std::move(rows));
  holding.hold_back(all);
  for (std::size_t d = all.size(); d-- > 0;) holding.hold_back({d});
  return holding.take();
}

}  // namespace mptune::planner

#include "planner/partition/step_times.h"

#include <algorithm>
#include <tuple>

#include "profiler/base/index.h"

namespace mptune::planner {

StepTimes::StepTimes(const Operations& operations, Prices& prices)
    : prices_(prices), exact_(!operations.interferes && !operations.queues), step_cost_ns_(operations.step_ns) {
  std::vector<int> last_on(as_index(operations.lanes), 0);
  std::vector<int> last_end(as_index(operations.lanes), -1);
  std::vector<std::pair<int, int>> reductions;
  for (std::size_t i = 0; i < operations.list.size(); ++i) {
    const Operation& operation = operations.list[i];
    const int slot = prices.slot_of(operations, i);
    stages_ = std::max(stages_, operation.stage + 1);
    if (operation.phase != Phase::actions) {
      add_end_item(operation, slot, last_end, reductions);
      continue;
    }
    // Which copy comes first on a medium that links share depends on the cuts. Without an order the step is a lower bound.
    if (operations.queues && operation.kind == EventKind::copy && operation.lane >= operations.devices) {
      items_.push_back({slot, operation.lane, operation.input + 1, 0});
      continue;
    }
    int& before = last_on[as_index(operation.lane)];
    items_.push_back({slot, operation.lane, operation.input + 1, before});
    before = static_cast<int>(items_.size());
  }
  slot_ns_.resize(as_index(prices.slots()));
  end_ns_.assign(items_.size() + 1, 0);
}

void StepTimes::add_end_item(const Operation& operation, int slot, std::vector<int>& last_on,
                             std::vector<std::pair<int, int>>& reductions) {
  const auto stage = as_index(operation.stage);
  const auto index = static_cast<int>(end_items_.size());
  if (reductions.size() <= stage) reductions.resize(stage + 1, {0, 0});
  EndItem item;
  item.slot = slot;
  item.before = std::exchange(last_on[as_index(operation.lane)], index);
  if (operation.phase == Phase::optimizer)
    std::tie(item.first, item.last) = reductions[stage];
  else
    reductions[stage] = {reductions[stage].second == 0 ? index : reductions[stage].first, index + 1};
  end_items_.push_back(item);
}

std::int64_t StepTimes::step_ns(const std::vector<int>& cuts) {
  for (int slot = 0; slot < prices_.slots(); ++slot) {
    const auto stage = as_index(prices_.stage(slot));
    const int first = stage == 0 ? 0 : cuts[stage - 1];
    const int last = stage == cuts.size() ? prices_.layers() : cuts[stage];
    slot_ns_[as_index(slot)] = prices_.ns(slot, first, last);
  }
  return time();
}

std::int64_t StepTimes::time() {
  actions_end_ns_ = 0;
  std::int64_t* const ends = end_ns_.data();
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Item& item = items_[i];
    const std::int64_t end = std::max(ends[item.input], ends[item.before]) + slot_ns_[as_index(item.slot)];
    ends[i + 1] = end;
    actions_end_ns_ = std::max(actions_end_ns_, end);
  }
  return actions_end_ns_ + time_end_phase() + step_cost_ns_;
}

std::int64_t StepTimes::time_end_phase() {
  std::int64_t end_ns = 0;
  final_ = -1;
  for (std::size_t i = 0; i < end_items_.size(); ++i) {
    EndItem& item = end_items_[i];
    std::int64_t start = 0;
    item.reason = -1;
    const auto wait_for = [&](int other) {
      if (other < 0 || end_items_[as_index(other)].end_ns <= start) return;
      start = end_items_[as_index(other)].end_ns;
      item.reason = other;
    };
    wait_for(item.before);
    for (int other = item.first; other < item.last; ++other) wait_for(other);
    item.end_ns = start + slot_ns_[as_index(item.slot)];
    if (item.end_ns <= end_ns) continue;
    end_ns = item.end_ns;
    final_ = static_cast<int>(i);
  }
  return end_ns;
}

Path StepTimes::longest_path() const {
  Path path;
  path.count.assign(slot_ns_.size(), 0);
  for (int i = final_; i >= 0; i = end_items_[as_index(i)].reason) ++path.count[as_index(end_items_[as_index(i)].slot)];
  auto at = as_index(std::find(end_ns_.begin() + 1, end_ns_.end(), actions_end_ns_) - end_ns_.begin());
  while (at > 0) {
    const Item& item = items_[at - 1];
    ++path.count[as_index(item.slot)];
    at = as_index(end_ns_[as_index(item.input)] > end_ns_[as_index(item.before)] ? item.input : item.before);
  }
  return path;
}

std::vector<Path> StepTimes::row_paths() {
  std::vector<Path> paths;
  for (int stage = 0; stage < stages_; ++stage) {
    for (int slot = 0; slot < prices_.slots(); ++slot) {
      const std::int64_t work_ns = prices_.stage(slot) == stage ? 1'000'000 : 1'000;
      slot_ns_[as_index(slot)] = prices_.kind(slot) == EventKind::copy ? 1 : work_ns;
    }
    static_cast<void>(time());
    paths.push_back(longest_path());
  }
  return paths;
}

// Returns the slots of the copies over each cut, of outputs or of gradients, each once.
std::vector<std::vector<int>> StepTimes::copies(bool gradients) const {
  std::vector<std::vector<int>> slots(as_index(stages_));
  for (const Item& item : items_) {
    if (prices_.kind(item.slot) != EventKind::copy) continue;
    const bool of_output = prices_.kind(items_[as_index(item.input) - 1].slot) == EventKind::forward;
    std::vector<int>& known = slots[as_index(prices_.stage(item.slot))];
    if (of_output != gradients && std::find(known.begin(), known.end(), item.slot) == known.end()) known.push_back(item.slot);
  }
  return slots;
}

// Returns the slots of the actions of a kind, by stage.
std::vector<std::vector<int>> StepTimes::actions(EventKind kind) const {
  std::vector<std::vector<int>> slots(as_index(stages_));
  for (int slot = 0; slot < prices_.slots(); ++slot)
    if (prices_.kind(slot) == kind) slots[as_index(prices_.stage(slot))].push_back(slot);
  return slots;
}

// Adds a reduction and the updates after it, on one lane.
void StepTimes::add_end_phase(int stage, Path& path) const {
  int at = static_cast<int>(end_items_.size()) - 1;
  while (at >= 0 && prices_.stage(end_items_[as_index(at)].slot) != stage) --at;
  while (at >= 0) {
    const EndItem& item = end_items_[as_index(at)];
    ++path.count[as_index(item.slot)];
    at = item.first < item.last ? item.first : item.before;
  }
}

// Work of a stage, and of later stages on the same device, begins after a micro-batch has passed the stages before it, and ends with a
// whole backward, which the backwards of the stages before follow. An order may choose the replicas that do this, and which backwards are
// split; work that depends on these choices is not counted.
std::vector<Path> StepTimes::row_paths_of_any_order(bool splits) const {
  std::vector<Path> paths(as_index(stages_), Path{std::vector<int>(slot_ns_.size(), 0)});
  std::vector<int> lane(paths.size(), -1);
  for (const Item& item : items_) {
    int& known = lane[as_index(prices_.stage(item.slot))];
    if (known < 0) known = item.lane;
  }
  for (const Item& item : items_) {
    const EventKind kind = prices_.kind(item.slot);
    if (splits && kind != EventKind::forward && kind != EventKind::copy) continue;
    for (int stage = 0; stage <= prices_.stage(item.slot); ++stage)
      if (lane[as_index(stage)] == item.lane) ++paths[as_index(stage)].count[as_index(item.slot)];
  }
  std::vector<std::vector<std::vector<int>>> passed = {actions(EventKind::forward), copies(false)};
  const std::vector<std::vector<int>> backwards = actions(EventKind::backward);
  const bool whole = !splits && std::none_of(backwards.begin(), backwards.end(), [](const auto& slots) { return slots.empty(); });
  if (whole) passed.insert(passed.end(), {backwards, copies(true)});
  for (std::size_t stage = 0; stage < paths.size(); ++stage) {
    for (const std::vector<std::vector<int>>& slots : passed) {
      for (std::size_t before = 0; before < stage; ++before)
        if (slots[before].size() == 1) ++paths[stage].count[as_index(slots[before].front())];
    }
    add_end_phase(static_cast<int>(stage), paths[stage]);
  }
  return paths;
}

// A micro-batch goes from the first stage to the last and back. On one stage, or on one link, the other micro-batches are in its way:
// before it on the way there if it is the last, after it on the way back if it is the first.
std::vector<Path> StepTimes::round_trips() const {
  std::vector<std::vector<std::vector<int>>> parts = {actions(EventKind::forward), actions(EventKind::backward), copies(false),
                                                      copies(true)};
  if (parts[1].front().empty()) parts[1] = actions(EventKind::backward_input);
  Path trip{std::vector<int>(slot_ns_.size(), 0)};
  for (std::size_t part = 0; part < parts.size(); ++part)
    for (const std::vector<int>& slots : parts[part]) {
      const bool no_copy = part > 1 && slots.empty();
      if (!no_copy && slots.size() != 1) return {};
      if (!no_copy) ++trip.count[as_index(slots.front())];
    }
  const int others = static_cast<int>(std::ranges::count(items_, parts[0].front().front(), &Item::slot)) - 1;  // micro-batches
  std::vector<Path> paths;
  for (const std::vector<std::vector<int>>& part : parts)
    for (const std::vector<int>& slots : part) {
      if (slots.empty()) continue;
      Path& path = paths.emplace_back(trip);
      path.count[as_index(slots.front())] += others;  // copies there and back may share a slot
      add_end_phase(prices_.stage(slots.front()), path);
    }
  return paths;
}

}  // namespace mptune::planner

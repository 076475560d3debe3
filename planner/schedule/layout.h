#pragma once

#include <cstdint>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/schedule/costs.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// One replica of a stage. It runs the micro-batches first, first + stride, ... in this order.
struct Unit {
  int stage = 0;
  int device = 0;
  int first = 0;
  int stride = 1;
  int count = 0;
  [[nodiscard]] int microbatch(int k) const { return first + k * stride; }
};

/// Who runs what: the replicas of a plan's stages, by stage and by device.
class Layout {
 public:
  /// Requires: a valid plan.
  explicit Layout(const Plan& plan);

  [[nodiscard]] int devices() const { return static_cast<int>(on_.size()); }
  [[nodiscard]] int stages() const { return static_cast<int>(first_unit_.size()); }
  [[nodiscard]] int microbatches() const { return microbatches_; }
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  /// Returns the units of a device, stages ascending.
  [[nodiscard]] const std::vector<int>& on(int device) const { return on_[as_index(device)]; }
  [[nodiscard]] int unit_of(int stage, int microbatch) const {
    const auto s = as_index(stage);
    return replicas_[s] == 1 ? first_unit_[s] : first_unit_[s] + microbatch % replicas_[s];
  }
  [[nodiscard]] int device_of(int stage, int microbatch) const { return units_[as_index(unit_of(stage, microbatch))].device; }
  [[nodiscard]] std::size_t slot(int stage, int microbatch) const {
    return as_index(stage) * as_index(microbatches_) + as_index(microbatch);
  }
  /// Returns the number of replicas of each stage.
  [[nodiscard]] const std::vector<int>& replicas() const { return replicas_; }
  /// True where every stage has one device.
  [[nodiscard]] bool single() const { return units_.size() == first_unit_.size(); }

 private:
  int microbatches_ = 0;
  std::vector<Unit> units_;
  std::vector<int> first_unit_;
  std::vector<int> replicas_;
  std::vector<std::vector<int>> on_;
};

using Rows = std::vector<std::vector<Action>>;

/// Returns the nanoseconds of an action.
[[nodiscard]] inline std::int64_t duration_ns(const StageCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return costs.forward_ns;
    case ActionKind::backward:
      return costs.backward_ns;
    case ActionKind::backward_input:
      return costs.backward_input_ns;
    case ActionKind::backward_weight:
      return costs.backward_weight_ns;
  }
  return 0;
}

/// Returns the bytes that an action leaves behind: positive for a forward, negative for what releases them.
[[nodiscard]] inline std::int64_t bytes_left(const StageCosts& costs, ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return costs.saved_activation_bytes;
    case ActionKind::backward:
      return -costs.saved_activation_bytes;
    case ActionKind::backward_input:
      return costs.held_bytes - costs.saved_activation_bytes;
    case ActionKind::backward_weight:
      return -costs.held_bytes;
  }
  return 0;
}

/// These return the sums over all micro-batches of an action; fused weight gradients are priced as single ones.
[[nodiscard]] inline std::int64_t duration_ns(const StageCosts& costs, const Action& action) {
  return (1 + action.further) * duration_ns(costs, action.kind);
}
[[nodiscard]] inline std::int64_t bytes_left(const StageCosts& costs, const Action& action) {
  return (1 + action.further) * bytes_left(costs, action.kind);
}

}  // namespace mptune::planner

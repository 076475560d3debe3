#pragma once

#include <cstddef>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/index.h"

namespace mptune::planner {

/// Where in a device's row of actions its micro-batches run. The plan must outlive this object.
class DeviceRow {
 public:
  DeviceRow(const Plan& plan, int device);

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const std::vector<Action>& actions() const { return plan_.actions[as_index(device_)]; }
  [[nodiscard]] const Stage& stage(int s) const { return plan_.stages[as_index(s)]; }
  [[nodiscard]] int samples(int microbatch) const { return plan_.microbatch_sizes[as_index(microbatch)]; }
  /// True if this device runs the stage's micro-batch.
  [[nodiscard]] bool mine(int s, int microbatch) const { return device_of(stage(s), microbatch) == device_; }
  /// Returns the number of micro-batches of the stage that this device runs.
  [[nodiscard]] int microbatches(int s) const;

  /// These return the index of the action that runs the forward, makes the gradient of the input, or reads the activations last. -1: the
  /// device has none.
  [[nodiscard]] int forward_at(int s, int microbatch) const { return at(forward_at_, s, microbatch); }
  [[nodiscard]] int gradient_at(int s, int microbatch) const { return at(gradient_at_, s, microbatch); }
  [[nodiscard]] int release_at(int s, int microbatch) const { return at(release_at_, s, microbatch); }
  [[nodiscard]] int last() const { return static_cast<int>(actions().size()) - 1; }
  /// True if a backward of the row is split.
  [[nodiscard]] bool splits() const { return splits_; }

 private:
  static constexpr std::size_t kNotHere = static_cast<std::size_t>(-1);
  [[nodiscard]] std::size_t slot(int s, int microbatch) const { return starts_[as_index(s)] + as_index(microbatch); }
  [[nodiscard]] int at(const std::vector<int>& list, int s, int microbatch) const {
    return starts_[as_index(s)] == kNotHere ? -1 : list[slot(s, microbatch)];
  }

  const Plan& plan_;
  int device_;
  std::vector<std::size_t> starts_;  // per stage: where it begins in the next three lists; kNotHere without actions in the row
  std::vector<int> forward_at_;      // per stage of the row and micro-batch, like the next two lists
  std::vector<int> gradient_at_;
  std::vector<int> release_at_;
  bool splits_ = false;
};

/// True for an action after which its stage no longer needs the activations.
[[nodiscard]] inline bool releases(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}

}  // namespace mptune::planner

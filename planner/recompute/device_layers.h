#pragma once

#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/recompute/least_kept.h"
#include "planner/recompute/least_set.h"

namespace mptune::planner {

/// The layers of one device of a plan. Any of them may be computed again.
class DeviceLayers {
 public:
  /// Reads the layers of `device`. Costs are those of the plan's largest micro-batch.
  DeviceLayers(const Plan& plan, int device, const CostModel& cost);

  [[nodiscard]] const std::vector<LayerChoice>& choices() const { return choices_; }
  [[nodiscard]] const std::vector<LayerNeed>& needs() const { return needs_; }
  /// Makes a plan compute the layers of a set again, and no other layers of this device. Requires: the same stages as the constructor's
  /// plan.
  void choose(const LayerSet& set, Plan& plan) const;

 private:
  void add(const Plan& plan, int stage, int device, const CostModel& cost);

  std::vector<LayerChoice> choices_;
  std::vector<LayerNeed> needs_;
};

}  // namespace mptune::planner

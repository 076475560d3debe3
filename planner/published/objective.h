#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/published/max_load.h"

namespace mptune::planner {

/// The best that was found by an objective.
struct ObjectiveResult {
  std::variant<Plan, LoadPartition> best;  ///< a split where the objective knows no schedule
  double value_s = 0;                      ///< what is minimized: the step, or the largest load of a device
  double lower_bound_s = 0;                ///< no plan or split has a smaller value
  double gap = 0;                          ///< value / lower bound - 1; 0 proves the best
  std::vector<std::int64_t> peak_bytes;    ///< per device, by the objective's own rule
};

/// A published rule for what makes a plan good, to compare with the simulated step: Aceso's formula, the closed form of synchronous
/// pipelines, the largest load of a device. An instance holds the problem it was made for.
class Objective {
 public:
  virtual ~Objective() = default;
  /// Returns the name as on the command line: "closed-form".
  [[nodiscard]] virtual std::string_view name() const = 0;
  /// Returns the best by this objective. Deterministic. Throws Error (infeasible) where nothing fits, and for choices that the objective
  /// does not know.
  [[nodiscard]] virtual ObjectiveResult minimize() const = 0;
};

/// The largest load of a device (max_load.h), over the splits of this graph.
class MaxLoadObjective : public Objective {
 public:
  explicit MaxLoadObjective(profiler::PlacementGraph graph) : graph_(std::move(graph)) {}
  [[nodiscard]] std::string_view name() const override { return "max-load"; }
  [[nodiscard]] ObjectiveResult minimize() const override;

 private:
  profiler::PlacementGraph graph_;
};

}  // namespace mptune::planner

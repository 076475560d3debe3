#pragma once

#include <array>
#include <string>
#include <vector>

#include "planner/advise/fit.h"

namespace mptune::planner {

/// Kinds of change, in the order in which they are applied: a later kind changes the plan that an earlier one made.
enum class FitKind { stages, schedule, cut, split, recompute };
inline constexpr std::array kFitKinds{FitKind::stages, FitKind::schedule, FitKind::cut, FitKind::split, FitKind::recompute};

/// A plan with one change of a kind.
struct FitVariant {
  Plan plan;       ///< rows may be missing; then the plan's schedule makes them
  int amount = 0;  ///< amount of the change, within its kind
  std::vector<FieldValue> options;
};

/// Returns all changes of a kind, smallest first. Rows of a plan that no named schedule makes stay as they are.
[[nodiscard]] std::vector<FitVariant> fit_variants(FitKind kind, const Plan& plan, const FitQuestion& question, const CostModel& cost);

/// Returns cuts that minimize the largest excess over a cap, then (nearly) the longest stage. Rows stay as they are. A graph of layers
/// counts as the chain that passes on what later layers read; its stages need no less. Requires: one stage per device. `caps` are per
/// device of the plan. Empty where no cuts are allowed, or there are too many to try.
[[nodiscard]] std::vector<int> least_excess_cuts(const Plan& plan, const std::vector<std::int64_t>& caps, const CostModel& cost);

/// Returns the cap of each of the plan's devices.
[[nodiscard]] std::vector<std::int64_t> caps_of_plan(const Plan& plan, const std::vector<std::string>& devices,
                                                     const std::vector<std::int64_t>& memory_bytes);
/// Returns cuts "3,7": first layers of all stages but the first.
[[nodiscard]] FieldValue cuts_value(const Plan& plan);
/// Returns recompute "0,2", "all" or "none": the stages that recompute anything.
[[nodiscard]] FieldValue recompute_value(const Plan& plan);
/// Returns offload "0,2", "all" or "none": the stages that offload.
[[nodiscard]] FieldValue offload_value(const Plan& plan);
[[nodiscard]] FieldValue microbatches_value(int count);
/// Returns `values` with `more`. A field that is stated again has its later value.
[[nodiscard]] std::vector<FieldValue> with_values(std::vector<FieldValue> values, const std::vector<FieldValue>& more);

}  // namespace mptune::planner

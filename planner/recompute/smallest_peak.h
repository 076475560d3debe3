#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "planner/recompute/device_layers.h"

namespace mptune::planner {

/// A set of layers with which a device needs few bytes.
struct SmallestPeak {
  LayerSet layers;
  std::int64_t peak_bytes = 0;
};

/// Returns the first set that fits the cap, or of up to 8 sets that do not fit, the one that exceeds it by least. It begins with all
/// layers, whose backward holds all that they save. Where that exceeds the cap, the backward must need less by the excess: the next set
/// saves fewest bytes for that (least_kept()), and so on. A set that fits is found if there is one and the peak is that of a whole backward
/// with the most micro-batches in flight, unless 8 sets are not enough.
[[nodiscard]] SmallestPeak smallest_peak(const DeviceLayers& layers, std::int64_t cap,
                                         const std::function<std::int64_t(const LayerSet&)>& peak_bytes);

/// What computing a peak costs beside the actions of its row, in simulated actions.
inline constexpr std::int64_t kActionsPerPeak = 20;
/// Number of peaks that smallest_peak() computes at most.
inline constexpr int kPeaksInPieces = 8;

/// Chooses the recomputation of one of a plan's devices. `device` is an index into Plan::devices.
using FitDevice = std::function<void(Plan& plan, int device)>;

/// Returns the plan after `fit` has chosen for each device over its cap (per device of the plan, 0: none). Replicas of a stage on unequal
/// devices may each ask for another set; if one of them still exceeds its cap, its stages are recomputed whole.
[[nodiscard]] Plan fit_devices(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost, const FitDevice& fit);

/// Returns the plan with the sets of smallest_peak() on every device over its cap. Requires: a valid plan with rows; these devices have no
/// recomputation yet.
[[nodiscard]] Plan with_smallest_peaks(Plan plan, const std::vector<std::int64_t>& caps, const CostModel& cost);

}  // namespace mptune::planner

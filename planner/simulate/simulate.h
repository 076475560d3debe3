#pragma once

#include <cstdint>
#include <vector>

#include "mptune/planner/cost/cost_model.h"
#include "mptune/planner/plan.h"
#include "mptune/profiler/trace/trace.h"

namespace mptune {

/// What a plan is expected to do.
struct Prediction {
  double step_s = 0;
  double lower_bound_s = 0;              ///< no schedule of these stages and micro-batches on these devices takes less
  std::vector<std::int64_t> peak_bytes;  ///< per device of the plan
  std::vector<double> busy_s;            ///< compute per device
  int limiting_stage = 0;                ///< stage whose device computes longest
  bool extrapolated = false;             ///< a micro-batch size outside the measured ones was priced
  bool operator==(const Prediction&) const = default;
};

struct Simulation {
  Prediction prediction;
  Trace trace;  ///< one step; names, tags, copies and edges as a measured trace has them
};

/// Runs one step of a plan on paper: operations (a layer range's forward, backward, recomputation, copies, reduction, optimizer) and their
/// edges, timed by the replay of profiler/analyze. Devices that compute at the same time slow each other as the profile measured.
/// Requires: a valid plan and schedule. Throws Error for a device that the profile does not know.
[[nodiscard]] Simulation simulate(const Plan& plan, const CostModel& cost);

/// The prediction alone, without names and ranges: what a search calls thousands of times.
[[nodiscard]] Prediction predict(const Plan& plan, const CostModel& cost);

/// Largest over the devices of: what must come before its first action, its own work, what must come after its last.
[[nodiscard]] double lower_bound_seconds(const Plan& plan, const CostModel& cost);

}  // namespace mptune

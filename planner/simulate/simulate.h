#pragma once

#include <cstdint>
#include <vector>

#include "planner/cost/cost_model.h"
#include "planner/plan/plan.h"
#include "profiler/trace/values/trace.h"

namespace mptune {

/// The predicted step of a plan.
struct Prediction {
  double step_s = 0;
  double lower_bound_s = 0;              ///< no order of the plan's actions takes less
  std::vector<std::int64_t> peak_bytes;  ///< per device of the plan
  std::vector<double> busy_s;            ///< computing time, per device of the plan
  int limiting_stage = 0;                ///< stage whose device computes longest
  bool extrapolated = false;             ///< a micro-batch size outside the measured ones was priced
  bool operator==(const Prediction&) const = default;
};

struct Simulation {
  Prediction prediction;
  Trace trace;  ///< one step; its names, tags, copies, edges and memory (as it changes with the actions) are like those of a measured trace
};

/// Simulates one step of a plan: operations (a layer range's forward, backward, recomputation, copies, reduction, optimizer) and their
/// edges, timed by the replay of profiler/trace/analyze. Where the plan says that idle devices help, weight gradients are computed layer by
/// layer, each by the device that choose_order (operations.h) finds for it; its events are on that device, with the owner's stage and
/// replica. Copies of one direction between two devices run one after another in the order of the sender's row, beside all else; where the
/// sender makes them (LinkCost::sender_copies), they run between its actions. Copies on links that share a medium queue there in the order
/// of arrival. A faster link is never slower, except for the order in this queue. Activations that stages offload are copied on lanes of
/// their own, or by the device itself (planner/plan/offload.h, HostCopies). Devices that compute at the same time slow each other as the
/// profile measured. Where the profile names another runtime, sends and receives follow its rules (planner/schedule/messages.h); the bound
/// is that of this project's runtime, which waits for less. The simulation does not see communication buffers (a sender never waits for
/// one), or what the host that starts the actions takes beyond its fixed cost. Requires: a valid plan and schedule. Throws Error for a
/// device, a link or copies with the host that the profile does not know, and for a batch that CostModel::require_countable refuses.
[[nodiscard]] Simulation simulate(const Plan& plan, const CostModel& cost);

/// Returns the prediction alone, without names and ranges. A search calls this thousands of times.
[[nodiscard]] Prediction predict(const Plan& plan, const CostModel& cost);

/// Returns seconds below which no step lies that runs the plan's actions (whole or split backwards, as its rows have them) on the same
/// devices, in any order. Each device and link counts as one machine: no job begins before its data can exist, and after it comes the rest
/// of its micro-batch (heads and tails). Where idle devices help, the devices of a group share their weight gradients: no group ends before
/// its work divided by its devices, each of which is idle until its first action or its group's first weight gradient can begin. Memory is
/// ignored.
[[nodiscard]] double lower_bound_seconds(const Plan& plan, const CostModel& cost);
/// Returns the bound for the plan's stages under any schedule, which may split the backwards of all, some or none of them: each backward
/// takes as long as the shorter of the two ways. It is no bound for fused weight gradients and idle devices that help.
[[nodiscard]] double lower_bound_of_any_schedule_seconds(const Plan& plan, const CostModel& cost);

}  // namespace mptune

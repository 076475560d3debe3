#pragma once

#include "planner/plan_file.h"
#include "profiler/base/rank.h"
#include "reports/cli/session.h"
#include "tuner/live/messages.h"

namespace mptune::reports {

/// True if other ranks were started than those that have the plan's devices.
[[nodiscard]] bool has_other_ranks(const Plan& plan, const RankPlace& place);

/// The fastest plan that a search on paper finds for those of the plan's devices whose ranks were started; layers and links are measured
/// first, on all ranks. It has the batch, the micro-batches and the memory format of `file`, and only exact schedules, so that the same
/// kernels train on bit for bit. `setup`: of `file`. Throws Error: none of the devices is left, no plan fits, a measurement fails.
[[nodiscard]] PlanFile replanned(const PlanFile& file, const tuner::TrainingSetup& setup, const RankPlace& place, const Session& session);

}  // namespace mptune::reports

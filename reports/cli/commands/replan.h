#pragma once

#include <string>
#include <vector>

#include "planner/plan/file/plan_file.h"
#include "profiler/base/rank.h"
#include "reports/cli/program/session.h"
#include "tuner/worker/messages.h"

namespace mptune::reports {

/// Returns those of `devices` that the ranks of `place` have. Throws Error if none are left.
[[nodiscard]] std::vector<std::string> of_started_ranks(const std::vector<std::string>& devices, const RankPlace& place);

/// Returns true if the plan is for other devices than these, in whatever order.
[[nodiscard]] bool has_other_devices(const Plan& plan, const std::vector<std::string>& devices);

/// Returns the fastest plan that a search by simulation finds for the devices of `setup`; layers and links are measured first, on all
/// ranks. It has the batch, the micro-batches and the memory format of `file`, and only exact schedules, so that the same kernels train on
/// bit for bit. In other respects `setup` is that of `file`. Throws Error where a rank has no device, no plan fits, or a measurement fails.
[[nodiscard]] PlanFile replanned(const PlanFile& file, const tuner::TrainingSetup& setup, const RankPlace& place, const Session& session);

}  // namespace mptune::reports

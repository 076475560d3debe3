#pragma once

#include <string>

#include "profiler/base/runtime.h"
#include "reports/cli/program/session.h"

namespace mptune::reports {

/// Predicts one plan on machines on paper, and shows it. `memory`: cap of each device as typed; `renamed`: see check_names(); `runtime`:
/// the one whose rules the prediction has. Returns the exit code. Throws Error.
int simulate_on_topology(const std::string& plan, const std::string& profile, const std::string& topology, const std::string& memory,
                         bool renamed, Runtime runtime, const Session& session);

}  // namespace mptune::reports

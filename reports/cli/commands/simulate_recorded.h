#pragma once

#include <string>

#include "profiler/base/runtime.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/program/session.h"

namespace mptune::reports {

/// What `simulate --from` was given.
struct RecordedCommand {
  std::string trace;
  PlanChoice choice;  ///< the plan to predict; nothing: the recorded one
  Runtime runtime = Runtime::mptune;
  OutputOptions output;
};

/// Predicts another plan of a pipeline that a trace recorded, by the times of its stages, and shows it with the range in which steps vary.
/// Returns the exit code. Throws Error.
int simulate_recorded(const RecordedCommand& command, const Session& session);

}  // namespace mptune::reports

#pragma once

#include <string>

#include "profiler/base/runtime.h"
#include "reports/cli/options/options.h"
#include "reports/cli/options/plan_choice.h"
#include "reports/cli/program/session.h"

namespace mptune::reports {

/// What `plan --topology` was given, as typed; "" where not given.
struct TopologyCommand {
  std::string profile, topology;
  std::string batch, memory, time, encoder_layers;
  std::string refused;  ///< the first option given that plans for a topology do not take; "": none
  Runtime runtime = Runtime::mptune;
  PlanChoice choice;
  OutputOptions output;
};

/// Searches uniform plans for the topology, shows the fastest and writes its file. Returns the exit code. Throws Error, infeasible where no
/// plan fits.
int plan_on_topology(const TopologyCommand& command, const Session& session);

}  // namespace mptune::reports

#pragma once

#include <string>

#include "mptune/reports/cli/session.h"

namespace mptune {

/// Splits a placement graph (JSON of dnn-partitioning) over its devices by the largest load, and shows the parts. `stages` and `memory`
/// ("" where not given) replace the number of devices and their cap. Throws Error, infeasible where nothing fits.
int plan_placement(const std::string& path, const std::string& stages, const std::string& memory, const Session& session);

}  // namespace mptune

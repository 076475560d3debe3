#pragma once

#include <string>

#include "profiler/trace/values/profile.h"
#include "reports/render/style.h"
#include "reports/render/unmeasured.h"

namespace mptune::reports {

/// Renders the costs of layers on the first class of devices, at the micro-batch size nearest to `samples`: all of them, or the few that
/// take most time. `where` ends the heading: "on cpu/1".
[[nodiscard]] std::string layer_table(const Profile& profile, int samples, const std::string& where, Listing listing,
                                      const TextStyle& style);

}  // namespace mptune::reports

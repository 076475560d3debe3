#pragma once

#include <string>

#include "profiler/trace/values/profile.h"
#include "reports/render/unmeasured.h"

namespace mptune::reports {

/// Lists the links of a profile, then the copies between its devices and host memory that were measured, a line each. Where there are more
/// links than four devices have, Listing::few gives their number and range.
///
///     link cpu:0 to cpu:1: 9.80 GB/s, latency 12.0 us
///     65280 links: 8.00 GB/s to 10.0 GB/s, latency 10.0 us; -v lists them
[[nodiscard]] std::string links_text(const Profile& profile, Listing listing);

}  // namespace mptune::reports

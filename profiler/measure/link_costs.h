#pragma once

#include "profiler/measure/measure.h"
#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Measures the links between the devices of the options, which the profile knows, and their copies to and from host memory. Links between
/// sleeping devices are alike, so one is measured. If the budget is kept, links after the first one, and devices after the first one, that
/// would not end within `seconds` are assumed to be as fast as the first, with a warning. Blocks.
void add_links(const MeasureOptions& options, double seconds, Profile& profile);

}  // namespace mptune::profiler

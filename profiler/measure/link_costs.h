#pragma once

#include "profiler/measure/measure.h"
#include "profiler/trace/profile.h"

namespace mptune::profiler {

/// Measures the links between the devices of the options, which the profile knows, and their copies to and from host memory. Links between
/// sleeping devices are alike: one is measured. Where the budget is kept, those behind the first link and the first device that would not
/// end within `seconds` are taken to be as fast as the first, and warned of. Blocks.
void add_links(const MeasureOptions& options, double seconds, Profile& profile);

}  // namespace mptune::profiler

#pragma once

#include <vector>

#include "profiler/trace/values/profile.h"

namespace mptune::profiler {

/// Returns the numbers of samples of a micro-batch that all layers take.
[[nodiscard]] SampleRange samples_taken(const std::vector<ProfileLayer>& layers);

}  // namespace mptune::profiler

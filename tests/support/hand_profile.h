#pragma once

#include "profiler/trace/values/profile.h"

namespace mptune::testing {

/// A profile with something in every field: two layers, two device classes with different measured sizes, three devices, links, awkward
/// doubles.
[[nodiscard]] Profile hand_profile();

}  // namespace mptune::testing

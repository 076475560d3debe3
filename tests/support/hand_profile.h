#pragma once

#include "mptune/profiler/trace/profile.h"

namespace mptune::testing {

/// Two layers, two classes of device that measured different sizes, three devices, links, awkward doubles: something in every field.
[[nodiscard]] Profile hand_profile();

}  // namespace mptune::testing

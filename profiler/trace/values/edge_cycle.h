#pragma once

#include <cstddef>
#include <vector>

#include "profiler/trace/values/trace.h"

namespace mptune::profiler {

/// True if events wait for each other in a circle. Requires: edges of events that exist, `events` of them. O(events + edges).
[[nodiscard]] bool form_a_cycle(const std::vector<Edge>& edges, std::size_t events);

}  // namespace mptune::profiler

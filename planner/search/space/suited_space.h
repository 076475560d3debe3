#pragma once

#include <vector>

#include "planner/search/space/search_space.h"
#include "profiler/trace/values/profile.h"

namespace mptune::planner {

/// Returns the part of a space whose plans the layers allow. It has no replicas where a forward writes a buffer, since each replica would
/// see some of the micro-batches only; with space.keep_numerics it has one micro-batch where changed_numerics() would else hold;
/// micro-batches are as small and as large as all layers take them. Throws Error where the space asks for what is not allowed.
[[nodiscard]] SearchSpace suited_space(SearchSpace space, const std::vector<ProfileLayer>& layers);

}  // namespace mptune::planner

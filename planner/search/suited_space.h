#pragma once

#include <vector>

#include "planner/search/search.h"
#include "profiler/trace/profile.h"

namespace mptune::planner {

/// The part of a space whose plans the layers allow: no replicas where a forward writes a buffer, for each would see some of the
/// micro-batches only; with space.keep_numerics one micro-batch where changed_numerics() would else hold; micro-batches as small and as
/// large as all layers take them. Throws Error where the space asks for what is not allowed.
[[nodiscard]] SearchSpace suited_space(SearchSpace space, const std::vector<ProfileLayer>& layers);

}  // namespace mptune::planner

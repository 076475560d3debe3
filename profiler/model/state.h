#pragma once

#include <vector>

#include "mptune/profiler/model/model.h"

namespace mptune {

/// Parameters and buffers in the order of Python's state_dict(): module by module, parameters before buffers.
[[nodiscard]] std::vector<NamedTensor> state_of(const Model& model);

}  // namespace mptune

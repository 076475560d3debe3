#pragma once

#include <cstdint>
#include <string>

#include "mptune/profiler/model/model.h"

namespace mptune {

/// The model of a plug-in (MPTUNE_MODEL of nn.h), with the weights that its factory draws after torch::manual_seed(seed); it is not asked
/// for its sample description. The library stays loaded for good. Throws Error (usage) before anything of the plug-in runs where it was
/// built with another mptune, LibTorch or C++ ABI, and for what the loader or the factory fails with.
[[nodiscard]] Model load_plugin(const std::string& path, std::uint64_t seed);

}  // namespace mptune
